"""The plain decoder on its own: it must be right, since the other is measured by it."""

from __future__ import annotations

import pytest

from pgsluice.errors import DecodeError
from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput.plain import decode_message, frames

INSERT = bytes.fromhex("49 00004000 4e 0004 74 00000002 3432 6e 75 74 00000000")
RELATION = bytes.fromhex("52 00004000 00 7400 64 0001 01 696400 00000017 ffffffff")


def test_an_insert_as_the_manual_has_it() -> None:
    """Text, null, unchanged TOAST and the empty text are four things."""
    assert decode_message(INSERT) == m.Insert(16384, ("42", None, m.UNCHANGED, ""))


def test_a_relation_as_the_manual_has_it() -> None:
    """An empty schema is pg_catalog; typmod is signed; the flag says what is part of the identity."""
    column = m.RelationColumn("id", 23, -1, True)
    assert decode_message(RELATION) == m.Relation(16384, "pg_catalog", "t", "d", (column,))


def test_a_transaction_as_the_manual_has_it() -> None:
    """Begin and Commit hold LSNs, microseconds since 2000 and the xid."""
    begin = bytes.fromhex("42 00000000016b3748 ffffffffffffffff 000002da")
    commit = bytes.fromhex("43 00 00000000016b3748 00000000016b3778 0000000000000001")
    assert decode_message(begin) == m.Begin(0x16B3748, -1, 730)
    assert decode_message(commit) == m.Commit(0x16B3748, 0x16B3778, 1)


@pytest.mark.parametrize("message", [INSERT, RELATION])
def test_every_shorter_message_is_refused(message: bytes) -> None:
    """A message that ends too early, anywhere, or has a byte too many is not a message."""
    for length in range(len(message)):
        with pytest.raises(DecodeError):
            decode_message(message[:length])
    with pytest.raises(DecodeError):
        decode_message(message + b"\0")


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"S" + bytes(5), id="stream start, of protocol 2"),
        pytest.param(INSERT.replace(b"t\0\0\0\0", b"b\0\0\0\0"), id="binary value"),
        pytest.param(INSERT.replace(b"t\0\0\0\0", b"t\xff\xff\xff\xff"), id="negative length"),
        pytest.param(RELATION.replace(b"id", b"\xff\xfe"), id="name that is not UTF-8"),
        pytest.param(RELATION.replace(b"t\0d", b"t\0x"), id="unknown identity"),
        pytest.param(bytes.fromhex("44 00004000 4b 0001 75"), id="unchanged value in an old tuple"),
        pytest.param(bytes.fromhex("44 00004000 4e 0001 6e"), id="delete with a new tuple"),
        pytest.param(bytes.fromhex("54 00000001 04 00004000"), id="unknown option of truncate"),
        pytest.param(bytes.fromhex("4d 00 7fffffffffffffff 00 00000000"), id="no position behind it"),
        pytest.param(bytes.fromhex("43 01") + bytes(24), id="unknown flag of commit"),
    ],
)
def test_what_protocol_1_does_not_have_is_refused(damaged: bytes) -> None:
    """Unknown kinds, flags and marks raise, and nothing is guessed."""
    with pytest.raises(DecodeError):
        decode_message(damaged)


def test_an_error_says_where() -> None:
    """The LSN and the offset of the frame are in the message and in its fields."""
    log = b"\x01\0\0\0" + (0x16B3748).to_bytes(8, "little") + b"?"
    with pytest.raises(DecodeError, match="at 0/16B3748, offset 100") as caught:
        list(frames(log, base=100))
    assert caught.value.fields == {"lsn": "0/16B3748", "offset": 100}
