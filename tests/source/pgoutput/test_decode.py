"""The compiled decoder: its errors, its limits, and what a caller may give it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.changelog.plan import OpenTransaction
from pgsluice.errors import DecodeError
from pgsluice.source.pgoutput import decode
from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput.decode import RelationAt, decode_range
from pgsluice.testing.pgoutput import encode, frame, frame_bytes, relations_at

from .comparing import Cut, fast, slow

BEGIN = frame(m.Begin(100, 0, 7))
COMMIT = frame(m.Commit(100, 110, 0))
TABLE = m.Relation(1, "public", "t", "d", (m.RelationColumn("a", 25, -1, True),) * 2)
HEAD = BEGIN + frame(TABLE)
OPENED = OpenTransaction(commit_lsn=100, commit_ts=0, xid=7, end_lsn=110, seq=5)


def refused(log: bytes, relations: list[RelationAt] | None = None) -> str:
    """The message with which both decoders refuse a log."""
    if relations is None:
        relations = relations_at(HEAD)
    with pytest.raises(DecodeError):
        slow(log, relations)
    with pytest.raises(DecodeError) as caught:
        fast(log, relations)
    return caught.value.message


def test_an_error_names_message_lsn_and_offset() -> None:
    """The error says what is wrong, where in the WAL and where in the segment, and survives pickling."""
    bad = encode(m.Insert(1, ("x", "y")))[:-1]
    log = HEAD + frame_bytes(bad, 0x16B3748) + COMMIT
    assert refused(log) == f"bad tuple in Insert at 0/16B3748, offset {len(HEAD)}"
    with pytest.raises(DecodeError) as caught:
        fast(log[len(HEAD) :], relations_at(HEAD), Cut(len(HEAD), OPENED), base=len(HEAD))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.fields == {"lsn": "0/16B3748", "offset": len(HEAD)}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        pytest.param(
            encode(m.Insert(2, ("x",))), "Insert of a relation that was not described", id="relation"
        ),
        pytest.param(encode(m.Truncate((1, 2), False, False)), "Truncate of a relation", id="truncate"),
        pytest.param(encode(m.Insert(1, ("x",))), "another number of columns", id="columns"),
        pytest.param(encode(m.Insert(1, ("x", "y"))).replace(b"t", b"b"), "a binary value", id="binary"),
        pytest.param(encode(m.Insert(1, ("x", "y"))) + b"\0", "bad Insert", id="trailing"),
        pytest.param(encode(m.Delete(1, ("x", m.UNCHANGED), "K")), "bad tuple in Delete", id="old"),
        pytest.param(encode(m.Begin(1, 0, 1)), "Begin inside another transaction", id="begin"),
        pytest.param(encode(m.Commit(99, 110, 0)), "Commit outside its transaction", id="commit"),
        pytest.param(encode(m.LogicalMessage(False, 1, "p", b"")), "Message inside another", id="message"),
        pytest.param(encode(TABLE), "a Relation that is not as the index has it", id="unindexed"),
        pytest.param(b"S" + bytes(9), "an unknown kind of message, byte 0x53", id="kind"),
        pytest.param(b"", "an unknown kind of message", id="empty"),
    ],
)
def test_what_is_refused(part: bytes, expected: str) -> None:
    """Each kind of damage is refused by both decoders, with words of its own."""
    assert expected in refused(HEAD + frame_bytes(part) + COMMIT)


@pytest.mark.parametrize(
    "message",
    [m.Insert(1, ("x", "y")), m.Commit(100, 110, 0), m.Truncate((1,), False, False)],
    ids=lambda message: type(message).__name__,
)
def test_a_change_outside_a_transaction_is_refused(message: m.Message) -> None:
    """Row changes, truncates, commits and transactional messages need a Begin."""
    assert "outside its transaction" in refused(HEAD + COMMIT + frame(message))


def test_frames_cut_off_are_refused() -> None:
    """A range that ends inside a frame is refused wherever it ends."""
    last = frame(m.Insert(1, ("x", "y")))
    for length in range(1, len(last)):
        assert "past the end" in refused(HEAD + last[:length])


@pytest.mark.parametrize(
    "change", [{"offset": 3}, {"relid": 2}, {"columns": 1}], ids=["offset", "relid", "columns"]
)
def test_an_index_that_does_not_fit_the_log_is_refused(change: dict[str, int]) -> None:
    """The index's relations must be those of the log: place, number and columns."""
    (known,) = relations_at(HEAD)
    assert "not as the index has it" in refused(HEAD + COMMIT, [replace(known, **change)])


def test_a_relation_only_in_the_index_is_refused() -> None:
    """An index that has a Relation where the log has none is of another log."""
    assert "not as the index has it" in refused(BEGIN + COMMIT, relations_at(HEAD))


def test_the_open_transaction_must_be_that_of_the_index() -> None:
    """A range that ends in a transaction needs its end, and no other range has one."""
    data = np.frombuffer(HEAD, np.uint8)
    with pytest.raises(DecodeError, match="whose end is not known"):
        decode_range(data, 0, len(data), opened=None, tail_end_lsn=0, relations=relations_at(HEAD))
    data = np.frombuffer(HEAD + COMMIT, np.uint8)
    with pytest.raises(DecodeError, match="no open transaction"):
        decode_range(data, 0, len(data), opened=None, tail_end_lsn=9, relations=relations_at(HEAD))


def test_unwanted_relations_are_counted_and_left_out() -> None:
    """Rows of our own schema take a ``seq``, so that positions don't depend on who reads."""
    insert = frame(m.Insert(1, ("x", "y")))
    log = HEAD + insert + frame(replace(TABLE, relid=2)) + frame(m.Insert(2, ("p", "q"))) + insert + COMMIT
    rows = fast(log, relations_at(log, {2: -1}))
    assert [(row["seq"], row["values"]) for row in rows] == [(1, [b"x", b"y"]), (3, [b"x", b"y"])]


def test_text_that_is_not_utf8_is_passed_on() -> None:
    """A value's bytes are the server's, whatever they are."""
    log = HEAD + frame(m.Insert(1, (b"\xff\xfe", "é"))) + COMMIT
    (row,) = fast(log, relations_at(log))
    assert row["values"] == [b"\xff\xfe", "é".encode()]


def test_nothing_gives_an_empty_batch() -> None:
    """A range without rows is a batch of the envelope without rows."""
    batch = decode_range(np.zeros(0, np.uint8), 7, 7, opened=None, tail_end_lsn=0, relations=[], base=7)
    assert batch.schema == ENVELOPE
    assert batch.num_rows == 0


def test_the_array_may_be_writable_and_stays_so() -> None:
    """Bytes read into a buffer of one's own decode like others, and the buffer can be used again."""
    log = HEAD + frame(m.Insert(1, ("x", "y"))) + COMMIT
    data = np.frombuffer(bytearray(log), np.uint8)
    assert fast(data, relations_at(log)) == slow(log, relations_at(log))
    assert data.flags.writeable


def test_the_batch_outlives_its_bytes() -> None:
    """The batch has its own memory: the bytes may be overwritten afterwards."""
    log = HEAD + frame(m.Insert(1, ("x", "y"))) + COMMIT
    data = np.frombuffer(bytearray(log), np.uint8)
    known = relations_at(log)
    batch = decode_range(data, 0, len(data), opened=None, tail_end_lsn=0, relations=known)
    data[:] = 0
    assert batch.column("values").to_pylist() == [["x", "y"]]


@pytest.mark.parametrize(("start", "end", "base"), [(0, 11, 0), (5, 4, 0), (2, 8, 3)])
def test_a_range_outside_the_bytes_is_refused(start: int, end: int, base: int) -> None:
    """Offsets that don't lie in the given bytes, as in a segment that was cut, are an error at once."""
    with pytest.raises(DecodeError, match="not inside the bytes"):
        decode_range(np.zeros(10, np.uint8), start, end, opened=None, tail_end_lsn=0, relations=[], base=base)


def test_other_arrays_than_bytes_are_a_mistake_of_the_caller() -> None:
    """Wider numbers or every second byte are not the bytes of a log."""
    for data in (np.zeros(10, np.int64), np.zeros(20, np.uint8)[::2]):
        with pytest.raises(ValueError, match="contiguous array of uint8"):
            decode_range(data, 0, 0, opened=None, tail_end_lsn=0, relations=[])


def test_more_text_than_arrow_can_point_at_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of over 2 GiB (here: 50 bytes) is an error with a remedy, not a wrapped offset."""
    monkeypatch.setattr(decode, "_LARGEST", 50)
    log = HEAD + frame(m.Insert(1, ("x" * 30, "y" * 30))) + COMMIT
    with pytest.raises(DecodeError, match="more than 2 GiB") as caught:
        fast(log, relations_at(log))
    assert "smaller ranges" in caught.value.remedy


def test_many_relations() -> None:
    """Rows find their relation among thousands, each the version in force."""
    tables = [replace(TABLE, relid=relid, name=f"t{relid}") for relid in range(5000, 0, -1)]
    inserts = [frame(m.Insert(relid, (str(relid), None))) for relid in range(1, 5001, 7)]
    again = frame(replace(TABLE, relid=8, name="renamed")) + frame(m.Insert(8, ("8", None)))
    log = BEGIN + b"".join(map(frame, tables)) + b"".join(inserts) + again + COMMIT
    rows = fast(log, relations_at(log))
    assert all(row["table"] == b"t" + row["values"][0] for row in rows[:-1])
    assert rows[-1]["table"] == b"renamed"
    assert len(rows) == len(inserts) + 1


def test_a_value_of_64_mib() -> None:
    """One value that is larger than all usual ranges is decoded whole."""
    value = b"0123456789abcdef" * (4 << 20)
    log = HEAD + frame(m.Insert(1, (value, None))) + COMMIT
    data, known = np.frombuffer(log, np.uint8), relations_at(HEAD)
    batch = decode_range(data, 0, len(data), opened=None, tail_end_lsn=0, relations=known)
    assert batch.column("values")[0].values[0].as_py() == value.decode()
