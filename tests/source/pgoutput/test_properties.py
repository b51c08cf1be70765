"""Both decoders on random valid streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgsluice.source.pgoutput.plain import decode_message, frames
from pgsluice.testing.pgoutput import encode

from .comparing import cuts, fast, slow
from .streams import streams

if TYPE_CHECKING:
    from .streams import Stream

thorough = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@thorough
@given(streams())
def test_the_compiled_decoder_gives_the_rows_of_the_plain_one(stream: Stream) -> None:
    """Any valid stream decodes to the same rows by both ways."""
    assert fast(stream.log, stream.relations) == slow(stream.log, stream.relations)


@thorough
@given(streams(), st.data())
def test_a_range_can_be_split_between_any_two_frames(stream: Stream, data: st.DataObject) -> None:
    """Two ranges, the second from its own bytes only, have together the rows of the whole."""
    places = cuts(stream.log)
    cut = data.draw(st.sampled_from(places))
    first = fast(stream.log, stream.relations, end=cut)
    second = fast(stream.log[cut.offset :], stream.relations, start=cut, base=cut.offset)
    assert first + second == fast(stream.log, stream.relations)
    assert first == slow(stream.log, stream.relations, end=cut)


@thorough
@given(streams(), st.data())
def test_a_range_in_the_middle_has_its_part_of_the_rows(stream: Stream, data: st.DataObject) -> None:
    """A range with something before and behind it has the same rows by both ways."""
    start, end = sorted(
        (data.draw(st.sampled_from(cuts(stream.log))) for _ in range(2)), key=lambda cut: cut.offset
    )
    assert fast(stream.log, stream.relations, start, end) == slow(stream.log, stream.relations, start, end)


@thorough
@given(streams())
def test_the_encoder_is_the_inverse_of_the_plain_decoder(stream: Stream) -> None:
    """A message that is encoded and decoded is the same message."""
    messages = [each.message for each in frames(stream.log)]
    assert [decode_message(encode(message)) for message in messages] == messages
