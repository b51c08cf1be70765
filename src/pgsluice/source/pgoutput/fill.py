"""
The second compiled pass: copies a range that ``measure.py`` found fine into the envelope's buffers.

It checks nothing: the buffers have the size that was counted, and the bytes must not have changed.
Arrays are taken out of their records once and passed on singly, for numba counts references each
time that one is taken out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.source.pgoutput.wire import (
    BEGIN,
    COMMIT,
    COMMIT_LSN,
    COMMIT_TS,
    CONTENT_BYTES,
    COUNTERS,
    DELETE,
    END_LSN,
    ENDS,
    HEADER,
    INSERT,
    LONGS,
    MESSAGE,
    NEW_TUPLE,
    OLD,
    OLD_BYTES,
    OPTIONS,
    PREFIX_BYTES,
    RELATION,
    ROWS,
    SEQ,
    TEXT,
    TOAST,
    TRUNCATE,
    UNCHANGED,
    UNIX_EPOCH,
    UPDATE,
    VALUE_BYTES,
    VALUES,
    XID,
    after_zero,
    before_range,
    compiled,
    copy_bytes,
    frame_length,
    i64,
    in_force,
    is_own,
    needs_hex,
    option_text,
    u16,
    u32,
)

if TYPE_CHECKING:
    from pgsluice.source.pgoutput.buffers import Bytes, Columns, IntRows, Ints, LongRows, Longs, Relations

_HEX: Final = b"0123456789abcdef"


@compiled
def _copy_tuple(
    data: Bytes,
    at: int,
    ends: Ints,
    there: Bytes,
    text: Bytes,
    unchanged: Ints,
    used: Longs,
    items_place: int,
    bytes_place: int,
) -> int:
    """Append a TupleData to a column of lists; the position after it."""
    columns = u16(data, at)
    at += 2
    item, to = used[items_place], used[bytes_place]
    for column in range(columns):
        kind = data[at]
        at += 1
        there[item] = kind == TEXT
        item += 1
        if kind == TEXT:
            length = u32(data, at)
            at += 4
            copy_bytes(data, at, text, to, length)
            at += length
            to += length
        elif kind == TOAST:
            unchanged[used[UNCHANGED]] = column
            used[UNCHANGED] += 1
        ends[item] = to
    used[items_place], used[bytes_place] = item, to
    return at


@compiled
def _close_row(
    header: Longs, longs: LongRows, ends: IntRows, op: Bytes, frames: Ints, used: Longs, kind: int, frame: int
) -> None:
    """Write the fixed columns of a row whose lists and texts are in their places."""
    row = used[ROWS]
    for i in range(LONGS):
        longs[i, row] = header[i]
    op[row] = kind
    frames[row] = frame
    for i in range(ENDS):
        ends[i, row + 1] = used[i]
    used[ROWS] = row + 1


@compiled
def _copy_text(data: Bytes, at: int, end: int, text: Bytes, used: Longs, place: int) -> None:
    copy_bytes(data, at, text, used[place], end - at)
    used[place] += end - at


@compiled
def _copy_hex(data: Bytes, at: int, end: int, text: Bytes, used: Longs) -> None:
    to = used[CONTENT_BYTES]
    text[to], text[to + 1] = 0x5C, 0x78
    for i in range(at, end):
        to += 2
        text[to], text[to + 1] = _HEX[data[i] >> 4], _HEX[data[i] & 15]
    used[CONTENT_BYTES] = to + 2


@compiled
def _copy_logical(data: Bytes, at: int, end: int, prefix: Bytes, content: Bytes, used: Longs) -> bool:
    """Append a message's prefix and content; False when it is one of ours."""
    after = after_zero(data, at + 10, end)
    if is_own(data, at + 10, after - 1):
        return False
    _copy_text(data, at + 10, after - 1, prefix, used, PREFIX_BYTES)
    if needs_hex(data, after + 4, end):
        _copy_hex(data, after + 4, end, content, used)
    else:
        _copy_text(data, after + 4, end, content, used, CONTENT_BYTES)
    return True


@compiled
def _copy_options(options: int, content: Bytes, used: Longs) -> None:
    first, last = option_text(options)
    for i in range(first, last):
        content[used[CONTENT_BYTES] + i - first] = OPTIONS[i]
    used[CONTENT_BYTES] += last - first


def fill(data: Bytes, known: Relations, force: Longs, header: Longs, tail_end_lsn: int, out: Columns) -> None:
    """Copy a range that ``measure`` found fine into buffers of the size that it counted."""
    ids, slot, offset, wanted = known.ids, known.slot, known.offset, known.wanted
    longs, ends, op, frames, has_old = out.longs, out.ends, out.op, out.frame, out.has_old
    value_ends, value_there, value_text = out.values.ends, out.values.there, out.values.text
    old_ends, old_there, old_text = out.old.ends, out.old.there, out.old.text
    unchanged, prefix, content = out.unchanged, out.prefix, out.content
    used = np.zeros(COUNTERS, np.int64)
    next_relation = before_range(offset, slot, force)
    first_row = start = 0  # first_row: of the open transaction
    while start < len(data):
        at = start + HEADER
        end = start = at + frame_length(data, start)
        kind = data[at]
        if kind in (INSERT, UPDATE, DELETE):
            header[SEQ] += 1
            frame = in_force(u32(data, at + 1), ids, force)
            if not wanted[frame]:
                continue
            at += 5
            is_old = data[at] != NEW_TUPLE
            has_old[used[ROWS]] = is_old
            if is_old:
                at = _copy_tuple(data, at + 1, old_ends, old_there, old_text, unchanged, used, OLD, OLD_BYTES)
            if at < end:
                _copy_tuple(
                    data, at + 1, value_ends, value_there, value_text, unchanged, used, VALUES, VALUE_BYTES
                )
            _close_row(header, longs, ends, op, frames, used, kind, frame)
        elif kind == BEGIN:
            header[COMMIT_LSN], header[COMMIT_TS] = i64(data, at + 1), i64(data, at + 9) + UNIX_EPOCH
            header[XID], header[SEQ] = u32(data, at + 17), 0
            first_row = used[ROWS]
        elif kind == COMMIT:
            longs[END_LSN, first_row : used[ROWS]] = i64(data, at + 10)
            first_row = used[ROWS]
        elif kind == RELATION:
            force[slot[next_relation]] = next_relation
            next_relation += 1
        elif kind == TRUNCATE:
            header[SEQ] += 1
            for relid in range(at + 6, end, 4):
                frame = in_force(u32(data, relid), ids, force)
                if wanted[frame]:
                    _copy_options(data[at + 5], content, used)
                    has_old[used[ROWS]] = 0
                    _close_row(header, longs, ends, op, frames, used, kind, frame)
        elif kind == MESSAGE:
            outside = data[at + 1] == 0  # a unit of its own, which ends right after its start
            if outside:
                header[:] = 0
                header[COMMIT_LSN] = i64(data, at + 2)
                header[END_LSN] = header[COMMIT_LSN] + 1
            else:
                header[SEQ] += 1
            if _copy_logical(data, at, end, prefix, content, used):
                has_old[used[ROWS]] = 0
                _close_row(header, longs, ends, op, frames, used, kind, -1)
            if outside:
                first_row = used[ROWS]
    longs[END_LSN, first_row : used[ROWS]] = tail_end_lsn
