"""
The buffers between the compiled passes and Arrow.

``fill.py`` writes plain arrays in Arrow's own layout (except that presence is a byte, not a bit, per
value); here they are allocated in the size that ``measure.py`` counted, and become a record batch of
the envelope without another copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.source.pgoutput import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Bytes of the log, text, or marks of 0 and 1."""

Ints: TypeAlias = npt.NDArray[np.int32]
"""Offsets and column numbers."""

IntRows: TypeAlias = npt.NDArray[np.int32]
"""Several of them, one per row of a matrix."""

Longs: TypeAlias = npt.NDArray[np.int64]
"""LSNs, times, counters."""

LongRows: TypeAlias = npt.NDArray[np.int64]
"""Several of them, one per row of a matrix."""

Marks: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.bool_]
"""Whether each value is there."""


class Relations(NamedTuple):
    """The Relation frames that may hold for rows of a range, in the order of the log."""

    ids: Longs  # each relid once, sorted
    slot: Longs  # which of them, per frame
    offset: Longs  # from the start of the range; negative when before it
    columns: Longs
    wanted: Bytes  # 0: its rows are counted but not given out


class Items(NamedTuple):
    """The texts in a column of lists."""

    ends: Ints
    there: Bytes
    text: Bytes


class Columns(NamedTuple):
    """The envelope's columns."""

    longs: LongRows  # commit_lsn, seq, xid, commit_ts, end_lsn
    ends: IntRows  # of a row's values, old, unchanged, prefix, content
    op: Bytes
    frame: Ints  # index of the Relation frame; -1 for a message
    has_old: Bytes
    values: Items
    old: Items
    unchanged: Ints
    prefix: Bytes
    content: Bytes


def allocate(counters: Longs) -> Columns:
    """Buffers for what was counted."""
    size = [int(count) for count in counters]
    rows = size[wire.ROWS]
    ends = _empty(wire.ENDS * (rows + 1), np.int32).reshape(wire.ENDS, rows + 1)
    ends[:, 0] = 0
    return Columns(
        longs=_empty(wire.LONGS * rows, np.int64).reshape(wire.LONGS, rows),
        ends=ends,
        op=_empty(rows, np.uint8),
        frame=_empty(rows, np.int32),
        has_old=_empty(rows, np.uint8),
        values=_items(size[wire.VALUES], size[wire.VALUE_BYTES]),
        old=_items(size[wire.OLD], size[wire.OLD_BYTES]),
        unchanged=_empty(size[wire.UNCHANGED], np.int32),
        prefix=_empty(size[wire.PREFIX_BYTES], np.uint8),
        content=_empty(size[wire.CONTENT_BYTES], np.uint8),
    )


def _items(count: int, text: int) -> Items:
    ends = _empty(count + 1, np.int32)
    ends[0] = 0
    return Items(ends, _empty(count, np.uint8), _empty(text, np.uint8))


def _empty(count: int, kind: type[Any]) -> npt.NDArray[Any]:
    # Arrow's pool uses memory again, while numpy gives large arrays back to the system each time.
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def record_batch(
    columns: Columns, versions: Sequence[int], schemas: Sequence[str], tables: Sequence[str]
) -> pa.RecordBatch:
    """The envelope over the buffers; versions and names are those of the Relation frames."""
    op, longs, ends = columns.op, columns.longs, columns.ends
    is_message = op == wire.MESSAGE
    outside = is_message & (longs[wire.SEQ] == 0)  # belongs to no transaction
    frames = pa.array(columns.frame, mask=is_message)
    in_values = (op == wire.INSERT) | (op == wire.UPDATE)
    unchanged = ends[wire.UNCHANGED]
    arrays = [
        pa.array(longs[wire.COMMIT_LSN]),
        pa.array(longs[wire.SEQ]),
        pa.array(longs[wire.END_LSN]),
        pa.array(longs[wire.XID], mask=outside),
        pa.array(longs[wire.COMMIT_TS], mask=outside).cast(ENVELOPE.field("commit_ts").type),
        _text(np.arange(len(op) + 1, dtype=np.int32), np.ones(len(op), np.bool_), op),
        pa.array(versions, pa.int32()).take(frames),
        pa.array(schemas, pa.string()).take(frames),
        pa.array(tables, pa.string()).take(frames),
        _lists("values", ends[wire.VALUES], in_values, _text(*columns.values)),
        _lists("old", ends[wire.OLD], columns.has_old, _text(*columns.old)),
        _lists("unchanged", unchanged, unchanged[1:] != unchanged[:-1], pa.array(columns.unchanged)),
        _text(ends[wire.PREFIX_BYTES], is_message, columns.prefix),
        _text(ends[wire.CONTENT_BYTES], is_message | (op == wire.TRUNCATE), columns.content),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ENVELOPE)


def _text(ends: Ints, there: Marks, text: Bytes) -> pa.Array:
    validity, nulls = _validity(there)
    return pa.StringArray.from_buffers(len(there), pa.py_buffer(ends), pa.py_buffer(text), validity, nulls)


def _lists(name: str, ends: Ints, there: Marks, items: pa.Array) -> pa.Array:
    validity, nulls = _validity(there)
    kind = ENVELOPE.field(name).type
    return pa.Array.from_buffers(kind, len(there), [validity, pa.py_buffer(ends)], nulls, children=[items])


def _validity(there: Marks) -> tuple[Any, int]:
    """Arrow's bitmap of the marks, or none when all are set; and the number of nulls."""
    nulls = len(there) - int(np.count_nonzero(there))
    return (pa.py_buffer(np.packbits(there, bitorder="little")) if nulls else None), nulls
