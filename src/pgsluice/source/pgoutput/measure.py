"""
The first compiled pass: accepts or refuses every byte of a range, and counts what it holds.

No length is used before it is known to lie inside its frame. ``plain.py`` says the same in plain
Python; ``fill.py`` relies on all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.source.pgoutput.wire import (
    BEGIN,
    BINARY,
    COMMIT,
    CONTENT_BYTES,
    DELETE,
    HEADER,
    INSERT,
    KEY_TUPLE,
    LAST_LSN,
    LATEST,
    MESSAGE,
    NEW_TUPLE,
    NONE_OPEN,
    NULL,
    OLD,
    OLD_BYTES,
    OLD_TUPLE,
    ORIGIN,
    PREFIX_BYTES,
    RELATION,
    ROWS,
    TEXT,
    TOAST,
    TRUNCATE,
    TYPE,
    UNCHANGED,
    UPDATE,
    VALUE_BYTES,
    VALUES,
    after_zero,
    before_range,
    compiled,
    frame_length,
    i64,
    in_force,
    is_own,
    is_utf8,
    needs_hex,
    option_text,
    u16,
    u32,
)

if TYPE_CHECKING:
    from pgsluice.source.pgoutput.buffers import Bytes, LongRows, Longs, Relations

# What the pass answers; ``decode.py`` has the words.
FINE: Final = 0
SHORT_FRAME: Final = 1
UNKNOWN_KIND: Final = 2
BAD_MESSAGE: Final = 3
BAD_TUPLE: Final = 4
BINARY_VALUE: Final = 5
WRONG_COLUMNS: Final = 6
UNKNOWN_RELATION: Final = 7
UNINDEXED_RELATION: Final = 8
OUTSIDE_TRANSACTION: Final = 9
INSIDE_TRANSACTION: Final = 10
UNKNOWN_END: Final = 11
NOTHING_OPEN: Final = 12

# Rows of the counters.
GIVEN_OUT: Final = 0
LEFT_OUT: Final = 1


@compiled
def _after_name(data: Bytes, at: int, end: int) -> int:
    """The position after an identifier; -1 when it is cut off or not UTF-8."""
    after = after_zero(data, at, end)
    return after if after > 0 and is_utf8(data, at, after - 1) else -1


@compiled
def _check_tuple(
    data: Bytes,
    at: int,
    end: int,
    columns: int,
    counters: LongRows,
    given: int,
    items: int,
    text_bytes: int,
) -> int:
    """Count a TupleData; the position after it, or minus what is wrong."""
    if end - at < 2:
        return -BAD_TUPLE
    if u16(data, at) != columns:
        return -WRONG_COLUMNS
    at += 2
    text = unchanged = 0
    for _ in range(columns):
        if at >= end:
            return -BAD_TUPLE
        kind = data[at]
        at += 1
        if kind == TEXT:
            if end - at < 4:
                return -BAD_TUPLE
            length = u32(data, at)
            at += 4
            if length > end - at:
                return -BAD_TUPLE
            at += length
            text += length
        elif kind == TOAST:
            unchanged += 1
        elif kind != NULL:
            return -BINARY_VALUE if kind == BINARY else -BAD_TUPLE
    if unchanged > 0 and items == OLD:  # the server inlines old values; the envelope can't mark them
        return -BAD_TUPLE
    counters[given, items] += columns
    counters[given, text_bytes] += text
    counters[given, UNCHANGED] += unchanged
    return at


@compiled
def _check_change(data: Bytes, at: int, end: int, columns: int, counters: LongRows, given: int) -> int:
    """Insert, Update, Delete: relid, old tuple after K or O, new tuple after N."""
    kind = data[at]
    at += 5
    if kind != INSERT and (data[at] == KEY_TUPLE or data[at] == OLD_TUPLE):
        at = _check_tuple(data, at + 1, end, columns, counters, given, OLD, OLD_BYTES)
        if at < 0:
            return -at
    elif kind == DELETE:
        return BAD_MESSAGE
    if kind != DELETE:
        if at >= end or data[at] != NEW_TUPLE:
            return BAD_MESSAGE
        at = _check_tuple(data, at + 1, end, columns, counters, given, VALUES, VALUE_BYTES)
        if at < 0:
            return -at
    counters[given, ROWS] += 1
    return FINE if at == end else BAD_MESSAGE


@compiled
def _check_truncate(
    data: Bytes, at: int, end: int, ids: Longs, force: Longs, wanted: Bytes, counters: LongRows
) -> int:
    """Truncate: number of relations, options, relids."""
    if end - at < 6 or data[at + 5] > 3 or end - at - 6 != 4 * u32(data, at + 1):
        return BAD_MESSAGE
    first, last = option_text(data[at + 5])
    for relid in range(at + 6, end, 4):
        frame = in_force(u32(data, relid), ids, force)
        if frame < 0:
            return UNKNOWN_RELATION
        if wanted[frame]:
            counters[GIVEN_OUT, ROWS] += 1
            counters[GIVEN_OUT, CONTENT_BYTES] += last - first
    return FINE


@compiled
def _is_lsn(data: Bytes, at: int) -> bool:
    """Whether a position, and the one after it, fit into a column of the envelope."""
    return 0 <= i64(data, at) < LAST_LSN


@compiled
def _check_logical(data: Bytes, at: int, end: int, is_open: bool, counters: LongRows) -> int:
    """Message: flags (1: transactional), LSN, prefix, length of the content, content."""
    if end - at < 10 or data[at + 1] > 1 or not _is_lsn(data, at + 2):
        return BAD_MESSAGE
    prefix = at + 10
    after = after_zero(data, prefix, end)
    if after < 0 or end - after < 4 or u32(data, after) != end - after - 4:
        return BAD_MESSAGE
    if (data[at + 1] == 1) != is_open:
        return INSIDE_TRANSACTION if is_open else OUTSIDE_TRANSACTION
    if not is_own(data, prefix, after - 1):
        size = end - after - 4
        counters[GIVEN_OUT, ROWS] += 1
        counters[GIVEN_OUT, PREFIX_BYTES] += after - 1 - prefix
        counters[GIVEN_OUT, CONTENT_BYTES] += 2 + 2 * size if needs_hex(data, after + 4, end) else size
    return FINE


@compiled
def _check_relation(data: Bytes, at: int, end: int, relid: int, columns: int) -> int:
    """Relation: relid, schema, name, replica identity, columns of (flags, name, type, typmod)."""
    if end - at < 5:
        return BAD_MESSAGE
    if u32(data, at + 1) != relid:
        return UNINDEXED_RELATION
    at = _after_name(data, at + 5, end)
    at = _after_name(data, at, end) if at > 0 else -1
    if at < 0 or end - at < 3 or data[at] not in (0x64, 0x6E, 0x66, 0x69):  # d n f i
        return BAD_MESSAGE
    if u16(data, at + 1) != columns:
        return UNINDEXED_RELATION
    at += 3
    for _ in range(columns):
        if at >= end or data[at] > 1:
            return BAD_MESSAGE
        at = _after_name(data, at + 1, end)
        if at < 0 or end - at < 8:
            return BAD_MESSAGE
        at += 8
    return FINE if at == end else BAD_MESSAGE


@compiled
def _check_rare(data: Bytes, at: int, end: int) -> int:
    """Type (oid, schema, name) and Origin (LSN, name): nothing of them is given out."""
    kind = data[at] if at < end else np.uint8(0)
    if kind == TYPE:
        at = _after_name(data, at + 5, end) if end - at >= 5 else -1
        at = _after_name(data, at, end) if at > 0 else -1
    elif kind == ORIGIN:
        at = _after_name(data, at + 9, end) if end - at >= 9 and _is_lsn(data, at + 1) else -1
    else:
        return UNKNOWN_KIND
    return FINE if at == end else BAD_MESSAGE


@compiled
def _check_begin(data: Bytes, at: int, end: int, is_open: bool) -> int:
    """Begin: LSN of the commit, its time, xid."""
    if end - at != 21 or not _is_lsn(data, at + 1) or i64(data, at + 9) > LATEST:
        return BAD_MESSAGE
    return INSIDE_TRANSACTION if is_open else FINE


@compiled
def _check_commit(data: Bytes, at: int, end: int, commit_lsn: int) -> int:
    """Commit: flags (0), LSN of the commit, end of the transaction, time."""
    if end - at != 26 or data[at + 1] != 0 or not (_is_lsn(data, at + 2) and _is_lsn(data, at + 10)):
        return BAD_MESSAGE
    return FINE if i64(data, at + 2) == commit_lsn else OUTSIDE_TRANSACTION


def measure(
    data: Bytes, known: Relations, force: Longs, commit_lsn: int, tail_end_lsn: int, counters: LongRows
) -> tuple[int, int]:
    """
    Check every frame of a range and count what it holds into ``counters``.

    Answers what is wrong and the offset of the frame where it is, or FINE. ``commit_lsn`` is that of
    the transaction that is open where the range starts.
    """
    ids, slot, offset, columns, wanted = known.ids, known.slot, known.offset, known.columns, known.wanted
    next_relation = before_range(offset, slot, force)
    start = 0
    while start < len(data):
        if len(data) - start < HEADER or frame_length(data, start) > len(data) - start - HEADER:
            return SHORT_FRAME, start
        at = start + HEADER
        end = at + frame_length(data, start)
        kind = data[at] if at < end else np.uint8(0)
        is_open = commit_lsn != NONE_OPEN
        if kind in (INSERT, UPDATE, DELETE):
            frame = in_force(u32(data, at + 1), ids, force) if end - at >= 6 else -1
            if not is_open:
                wrong = OUTSIDE_TRANSACTION
            elif frame >= 0:
                given = GIVEN_OUT if wanted[frame] else LEFT_OUT
                wrong = _check_change(data, at, end, columns[frame], counters, given)
            else:
                wrong = UNKNOWN_RELATION if end - at >= 6 else BAD_MESSAGE
        elif kind == BEGIN:
            wrong = _check_begin(data, at, end, is_open)
            if wrong == FINE:
                commit_lsn = i64(data, at + 1)
        elif kind == COMMIT:
            wrong = _check_commit(data, at, end, commit_lsn)
            commit_lsn = NONE_OPEN
        elif kind == RELATION:
            wrong = UNINDEXED_RELATION
            if next_relation < len(offset) and offset[next_relation] == start:
                relation = slot[next_relation]
                wrong = _check_relation(data, at, end, ids[relation], columns[next_relation])
                force[relation] = next_relation
                next_relation += 1
        elif kind == TRUNCATE:
            wrong = _check_truncate(data, at, end, ids, force, wanted, counters)
            if not is_open:
                wrong = OUTSIDE_TRANSACTION
        elif kind == MESSAGE:
            wrong = _check_logical(data, at, end, is_open, counters)
        else:
            wrong = _check_rare(data, at, end)
        if wrong != FINE:
            return wrong, start
        start = end
    if next_relation < len(offset) and offset[next_relation] < len(data):
        return UNINDEXED_RELATION, offset[next_relation]
    if (commit_lsn != NONE_OPEN) != (tail_end_lsn != 0):
        return NOTHING_OPEN if commit_lsn == NONE_OPEN else UNKNOWN_END, start
    return FINE, start
