"""
The decoder: a range of the change log to one Arrow record batch of the envelope.

A range starts and ends between two frames of a segment, anywhere in a transaction, so that tasks can
decode one transaction in parallel; what a reader can't see from there (the open transaction, the
relations so far) comes from the segment's index. The work is done by two compiled passes
(``measure.py``, ``fill.py``); ``plain.py`` is the same decoder in plain Python, for tests and people.

A message's content that is not UTF-8, or that itself begins with ``\\x``, is given out as ``\\x`` and
the hexadecimal form of its bytes, so the bytes can always be had back. Column values are passed on
as the server sent them.

Arrow's 32-bit offsets hold 2 GiB of text per column. One row always fits, since a message of the
server is smaller than 1 GiB; a range of many huge rows that does not fit is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.changelog.position import Lsn
from pgsluice.errors import DecodeError
from pgsluice.source.pgoutput import measure, wire
from pgsluice.source.pgoutput.buffers import Bytes, Longs, Relations, allocate, record_batch
from pgsluice.source.pgoutput.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from pgsluice.changelog.plan import OpenTransaction

_LARGEST: Final = 2**31 - 1  # bytes of text or items that Arrow's 32-bit offsets can point at

_REMEDY: Final = "The log or its index is damaged there; `pgsluice resync` copies the data again"

_WRONG: Final = {
    measure.SHORT_FRAME: "a frame that runs past the end of its range",
    measure.UNKNOWN_KIND: "an unknown kind of message, {kind}",
    measure.BAD_MESSAGE: "bad {kind}",
    measure.BAD_TUPLE: "bad tuple in {kind}",
    measure.BINARY_VALUE: "a binary value in {kind}, which was not asked for",
    measure.WRONG_COLUMNS: "{kind} with another number of columns than its relation",
    measure.UNKNOWN_RELATION: "{kind} of a relation that was not described before",
    measure.UNINDEXED_RELATION: "a Relation that is not as the index has it",
    measure.OUTSIDE_TRANSACTION: "{kind} outside its transaction",
    measure.INSIDE_TRANSACTION: "{kind} inside another transaction",
    measure.UNKNOWN_END: "a transaction whose end is not known",
    measure.NOTHING_OPEN: "no open transaction, although the index has the end of one",
}

_KINDS: Final = {
    wire.BEGIN: "Begin",
    wire.COMMIT: "Commit",
    wire.DELETE: "Delete",
    wire.INSERT: "Insert",
    wire.MESSAGE: "Message",
    wire.ORIGIN: "Origin",
    wire.RELATION: "Relation",
    wire.TRUNCATE: "Truncate",
    wire.TYPE: "Type",
    wire.UPDATE: "Update",
}


@dataclass(frozen=True, slots=True)
class RelationAt:
    """A Relation frame, which holds for the rows after its offset."""

    offset: int
    relid: int
    version: int  # id in the schema store; -1: its rows are counted, but not given out
    schema: str
    table: str
    columns: int


def decode_range(
    data: Bytes,
    start: int,
    end: int,
    *,
    opened: OpenTransaction | None,
    tail_end_lsn: int,
    relations: Sequence[RelationAt],
    base: int = 0,
) -> pa.RecordBatch:
    """
    Decode the frames between two offsets of a segment.

    Args:
        data: the segment's bytes from offset ``base`` on, at least up to ``end``; they must not change.
        start: offset of the first frame.
        end: offset after the last frame.
        opened: the transaction that is open at ``start``.
        tail_end_lsn: the end of the transaction that is open at ``end``; 0 when none is.
        relations: all Relation frames of the segment before ``end``, by offset.
        base: offset of the first byte of ``data``.
    """
    if data.dtype != np.uint8 or not data.flags.c_contiguous:
        raise ValueError("the bytes of a log are one contiguous array of uint8")
    if not base <= start <= end <= base + len(data):
        raise DecodeError(
            f"the range from {start} to {end} is not inside the bytes from {base} to {base + len(data)}",
            remedy=_REMEDY,
            offset=start,
        )
    window = data[start - base : end - base]
    window.flags.writeable = False  # one type for the compiler, whoever made the array
    known, force = _known(relations, start)
    counters = np.zeros((2, wire.COUNTERS), np.int64)
    passes = kernel()
    commit_lsn = opened.commit_lsn if opened else wire.NONE_OPEN
    wrong, offset = passes.measure(window, known, force, commit_lsn, tail_end_lsn, counters)
    if wrong != measure.FINE:
        raise _error(window, wrong, offset, start)
    if counters[measure.GIVEN_OUT].max() > _LARGEST:
        raise DecodeError(
            f"the range from offset {start} to {end} holds more than 2 GiB of text in one column",
            remedy="Decode it in smaller ranges",
            offset=start,
        )
    columns = allocate(counters[measure.GIVEN_OUT])
    passes.fill(window, known, force, _header(opened), tail_end_lsn, columns)
    return record_batch(
        columns,
        [relation.version for relation in relations],
        [relation.schema for relation in relations],
        [relation.table for relation in relations],
    )


def warm() -> None:
    """Compile the passes, or load them from numba's cache, so that the first batch is a fast one."""
    kernel()


def _known(relations: Sequence[RelationAt], start: int) -> tuple[Relations, Longs]:
    """The relations as the compiled passes take them, and room for which of them is in force."""
    relids = np.array([relation.relid for relation in relations], np.int64)
    ids, slot = np.unique(relids, return_inverse=True)
    known = Relations(
        ids=ids,
        slot=slot.astype(np.int64),
        offset=np.array([relation.offset - start for relation in relations], np.int64),
        columns=np.array([relation.columns for relation in relations], np.int64),
        wanted=np.array([relation.version >= 0 for relation in relations], np.uint8),
    )
    return known, np.empty(len(ids), np.int64)


def _header(opened: OpenTransaction | None) -> Longs:
    header = np.zeros(wire.LONGS, np.int64)
    if opened is not None:
        header[wire.COMMIT_LSN] = opened.commit_lsn
        header[wire.COMMIT_TS] = opened.commit_ts + wire.UNIX_EPOCH
        header[wire.XID] = opened.xid
        header[wire.SEQ] = opened.seq
    return header


def _error(window: Bytes, wrong: int, offset: int, start: int) -> DecodeError:
    """The error for what ``measure`` answered; ``offset`` is that of the frame, in the window."""
    header = window[offset : offset + wire.HEADER + 1].tobytes()
    lsn = Lsn(int.from_bytes(header[4:12], "little"))
    kind = (
        _KINDS.get(header[wire.HEADER], f"byte 0x{header[wire.HEADER]:02X}")
        if len(header) > wire.HEADER
        else "nothing"
    )
    return DecodeError(
        f"{_WRONG[wrong].format(kind=kind)} at {lsn}, offset {start + offset}",
        remedy=_REMEDY,
        lsn=str(lsn),
        offset=start + offset,
    )
