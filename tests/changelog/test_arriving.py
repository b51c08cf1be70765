"""A transaction that is read while it comes in: what is given out is what the log holds of it in the end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pgsluice.changelog.arriving import Arriving, BrokenOffError
from pgsluice.changelog.log import LogWriter
from pgsluice.changelog.plan import LogSlice
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.scan import Scanner
from tests.changelog.test_log import META, feed, frames, transaction
from tests.changelog.wire import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pgsluice.changelog.plan import LogRange

BEFORE = Lsn(208)  # the end of the transaction that is there at first
COMMIT = 5000


class Writing:
    """A log whose second transaction is written piece by piece, while a reader asks for more."""

    def __init__(self, place: Path, rng: random.Random, *, rows: int, segment_bytes: int) -> None:
        self.place = place
        self.rng = rng
        self.messages = transaction(COMMIT, [rng.randbytes(1000) for _ in range(rows)], (7,))
        self.writer, self.scanner = LogWriter(place, META, segment_bytes=segment_bytes), Scanner(1 << 16)
        self.scanner.reset(self.writer.offset)
        feed(self.writer, self.scanner, transaction(200, [b"first"], (7,)))
        self.writer.sync()
        self.left = list(self.messages)

    def write(self, most: int = 600) -> bool:
        """Write some more."""
        count = self.rng.randrange(1, most)
        feed(self.writer, self.scanner, self.left[:count])
        self.left = self.left[count:]
        if self.rng.random() < 0.7 or not self.left:
            self.writer.sync()
        return True

    def cut(self) -> None:
        """As a new connection does: from the beginning again, perhaps with other frames in between."""
        self.writer.cut(self.scanner)
        relations = self.rng.choice([(7,), (7, 8)])
        again = transaction(COMMIT, [], relations)
        self.left = [*again[:-1], *(m for m in self.messages[1:] if m[:1] != b"R")]

    def whole(self) -> list[bytes]:
        """What a reader of whole transactions sees in the end."""
        while self.left:
            self.write()
        self.writer.sync()
        slice_ = LogReader(self.place).next(BEFORE, 1)
        assert slice_ is not None
        return frames(slice_)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Callable[..., Writing]]:
    """Makes logs; prints the seed."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    made = []

    def make(**options: int) -> Writing:
        place = tmp_path / str(len(made))
        place.mkdir()
        made.append(Writing(place, rng, **options))
        return made[-1]

    yield make
    for each in made:
        each.writer.close()


def begun(log: Writing, *, segments: int = 1) -> Arriving:
    """The transaction, as soon as there is something of it, and the log has so many segments."""
    while True:
        reader = LogReader(log.place)
        arriving = reader.arriving(BEFORE)
        if arriving is not None and len(reader.segments) >= segments:
            return arriving
        log.write()


def given(ranges: list[LogRange]) -> list[bytes]:
    """The messages of ranges, read at the moment."""
    return frames(LogSlice(BEFORE, BEFORE, tuple(ranges), 0, 0))


@pytest.mark.parametrize("segment_bytes", [2 << 20, 64 << 20])
def test_it_is_the_same_transaction(writing: Callable[..., Writing], segment_bytes: int) -> None:
    """In pieces, over one segment or many, with the numbers that a reader of the whole one gets."""
    log = writing(rows=14_000, segment_bytes=segment_bytes)
    arriving = begun(log)
    found: list[bytes] = []
    early = 0
    for range_ in arriving.ranges(log.write):
        found += given([range_])
        early += bool(log.left)
    assert early > 1, "most of it was read before it was whole"
    assert found == log.messages[:1] + [m for m in log.messages[1:] if m[:1] != b"R"]
    assert found == log.whole()
    assert arriving.end == COMMIT + 8
    assert arriving.changes == 14_000
    print(f"compared {len(found)} messages, {early} pieces of them early")


def test_there_is_none_before_a_place_to_stop_at(writing: Callable[..., Writing]) -> None:
    """A small transaction is left to those who read whole ones; so is one that is whole already."""
    log = writing(rows=100, segment_bytes=64 << 20)
    log.write(50)
    log.writer.sync()
    reader = LogReader(log.place)
    assert reader.arriving(BEFORE) is None
    log.whole()
    reader.next(BEFORE, 1)
    assert reader.arriving(Lsn(COMMIT + 8)) is None


def test_what_is_cut_does_not_count(writing: Callable[..., Writing]) -> None:
    """Cut at any moment, and written again in the same or in other places: an error, or the right rows."""
    broken = compared = 0
    for mib, segments in [(1, 1), (1, 3), (3, 1), (3, 2), (64, 1)] * 3:
        log = writing(rows=9000, segment_bytes=mib << 20)
        arriving = begun(log, segments=segments)
        at = log.rng.randrange(1, len(log.messages))
        has_cut = False

        def go_on(log: Writing = log, at: int = at) -> bool:
            nonlocal has_cut
            if not has_cut and len(log.left) < at:
                has_cut = True
                log.cut()
            return log.write()

        try:
            found = [message for range_ in arriving.ranges(go_on) for message in given([range_])]
        except (BrokenOffError, FileNotFoundError, AssertionError):
            broken += 1  # an AssertionError: of bytes that were cut while they were read
            continue
        assert found == log.whole()
        compared += len(found)
    print(f"{broken} broken off, {compared} messages of the others compared")
    assert broken


@pytest.mark.parametrize("cuts", [1, 2], ids=["once", "twice"])
def test_written_again_just_so_it_does_not_count(writing: Callable[..., Writing], cuts: int) -> None:
    """
    Also when every byte has come back to its place: nobody knows that but the server.

    A writer that restarts cuts, and its connection cuts again: the first note of it must stay.
    """
    log = writing(rows=6000, segment_bytes=64 << 20)
    arriving = begun(log)
    pieces = arriving.ranges(log.write)
    next(pieces)
    for _ in range(cuts):
        log.writer.cut(log.scanner)
    log.left = list(log.messages)
    log.whole()
    with pytest.raises(BrokenOffError):
        list(pieces)


def test_cut_under_a_segment_that_was_full(writing: Callable[..., Writing]) -> None:
    """Begun where it is in two segments already; what comes again fills the first one less than before."""
    log = writing(rows=12_000, segment_bytes=5 << 20)
    for count in (4900, 4100, 1000):  # large pieces: the first segment grows far beyond its size
        append(log, count)
    log.writer.sync()
    reader = LogReader(log.place)
    assert reader.next(BEFORE, 1) is None
    arriving = reader.arriving(BEFORE)
    assert arriving is not None
    assert len(reader.segments) == 2
    pieces = arriving.ranges(lambda: True)
    for _ in range(2):
        given([next(pieces)])
    log.writer.cut(log.scanner)
    log.left = list(log.messages)
    while log.left:
        append(log, 300)
    log.writer.sync()
    with pytest.raises(BrokenOffError):
        list(pieces)


def append(log: Writing, count: int) -> None:
    """Write messages in one piece."""
    data = b"".join(map(wire, log.left[:count]))
    scanned = log.scanner.scan(np.frombuffer(data, np.uint8), len(data))
    log.writer.append(scanned, log.scanner)
    log.left = log.left[count:]


def test_a_log_that_is_thrown_away_meanwhile(writing: Callable[..., Writing]) -> None:
    """What a reader knew of it is gone: there is nothing to begin with."""
    log = writing(rows=6000, segment_bytes=64 << 20)
    begun(log)
    reader = LogReader(log.place)
    log.writer.begin_anew(log.scanner)
    assert reader.arriving(BEFORE) is None


def test_nobody_waits_for_ever(writing: Callable[..., Writing]) -> None:
    """Who waits decides how long."""
    log = writing(rows=6000, segment_bytes=64 << 20)
    arriving = begun(log)
    with pytest.raises(BrokenOffError):
        list(arriving.ranges(lambda: False))
    assert arriving.end is None
