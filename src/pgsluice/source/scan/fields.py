"""The compiled passes over COPY's binary format: rows to fields, and the fields of one column to Arrow's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pgsluice.changelog.compiled import compiled, copy_bytes

if TYPE_CHECKING:
    from pgsluice.source.snapshot.kernel import Bytes

_END: Final = 0xFFFF  # in the place of a row's width
_NAN: Final = 0xC000
_NEGATIVE: Final = 0x4000
_NUMERIC_HEADER: Final = 8  # how many digits, weight of the first, sign, digits after the point
_BASE: Final = 10_000  # numeric's digits are of four decimals each
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_UUID_BYTES: Final = 16
_DASH: Final = ord("-")


@compiled
def find_fields(rows: Bytes, begin: int, columns: int, starts: Any, sizes: Any, totals: Any) -> int:
    """
    Find where every field begins and how long it is, -1 for NULL; gives how many rows there are.

    Anything but whole rows of that many columns gives -1. ``totals`` gets how many bytes each column has.
    """
    at = np.int64(begin)
    end = len(rows)
    count = 0
    cell = 0
    while at + 2 <= end:
        width = (np.int64(rows[at]) << 8) | np.int64(rows[at + 1])
        at += 2
        if width == _END:
            break
        if width != columns:
            return -1
        for column in range(columns):
            if at + 4 > end:
                return -1
            size = np.int32(
                (np.uint32(rows[at]) << np.uint32(24))
                | (np.uint32(rows[at + 1]) << np.uint32(16))
                | (np.uint32(rows[at + 2]) << np.uint32(8))
                | np.uint32(rows[at + 3])
            )
            at += 4
            starts[cell] = at
            sizes[cell] = size
            cell += 1
            if size > 0:
                at += size
                if at > end:
                    return -1
                totals[column] += size
        count += 1
    return count if at == end else -1


@compiled
def fill_numbers(
    rows: Bytes, starts: Any, sizes: Any, column: int, columns: int, there: Bytes, out: Any
) -> int:
    """Read big-endian numbers of as many bytes as ``out`` has for each; gives how many are NULL, or -1."""
    nulls = 0
    width = out.itemsize
    cell = column
    for row in range(len(out)):
        size = sizes[cell]
        if size == width:
            at = np.int64(starts[cell])
            value = np.uint64(0)
            for byte in range(width):
                value = (value << np.uint64(8)) | np.uint64(rows[at + byte])
            out[row] = value
        elif size < 0:
            there[row] = 0
            out[row] = 0
            nulls += 1
        else:
            return -1
        cell += columns
    return nulls


@compiled
def fill_bytes(
    rows: Bytes,
    starts: Any,
    sizes: Any,
    column: int,
    columns: int,
    skipped: int,
    there: Bytes,
    to: Any,
    out: Bytes,
) -> int:
    """Write the fields of a column end to end, each without its first bytes; NULLs are counted, or -1."""
    nulls = 0
    at = np.int64(0)
    cell = column
    for row in range(len(there)):
        size = np.int64(sizes[cell])
        if size >= skipped:
            copy_bytes(out, at, rows, np.int64(starts[cell]) + skipped, size - skipped)
            at += size - skipped
        elif size < 0:
            there[row] = 0
            nulls += 1
        else:
            return -1
        to[row + 1] = at
        cell += columns
    return nulls


@compiled
def fill_uuids(
    rows: Bytes, starts: Any, sizes: Any, column: int, columns: int, there: Bytes, to: Any, out: Bytes
) -> int:
    """Write UUIDs as PostgreSQL does; gives how many are NULL, or -1."""
    nulls = 0
    at = 0
    cell = column
    for row in range(len(there)):
        if sizes[cell] == _UUID_BYTES:
            start = np.int64(starts[cell])
            for byte in range(_UUID_BYTES):
                if byte in (4, 6, 8, 10):
                    out[at] = _DASH
                    at += 1
                value = rows[start + byte]
                out[at] = _HEX[value >> 4]
                out[at + 1] = _HEX[value & 15]
                at += 2
        elif sizes[cell] < 0:
            there[row] = 0
            nulls += 1
        else:
            return -1
        to[row + 1] = at
        cell += columns
    return nulls


@compiled
def _int16(rows: Bytes, at: int) -> Any:
    value = (np.int64(rows[at]) << 8) | np.int64(rows[at + 1])
    return value - 0x10000 if value >= 0x8000 else value


@compiled
def _times_plus(low: Any, high: Any, factor: int, added: int) -> tuple[Any, Any]:
    """A number of 128 bits times a small one, plus another."""
    by = np.uint64(factor)
    first = (low & _LOW_HALF) * by + np.uint64(added)
    second = (low >> _HALF) * by + (first >> _HALF)
    return (first & _LOW_HALF) | ((second & _LOW_HALF) << _HALF), high * by + (second >> _HALF)


@compiled
def fill_decimals(
    rows: Bytes,
    starts: Any,
    sizes: Any,
    column: int,
    columns: int,
    scale: int,
    there: Bytes,
    odd: Bytes,
    out: Any,
) -> int:
    """
    Read numerics of one scale as numbers of 128 bits; gives how many are NULL, or -1.

    ``odd`` becomes 1 for what is no such number: NaN, infinity, another scale.
    """
    nulls = 0
    cell = column
    for row in range(len(there)):
        low = np.uint64(0)
        high = np.uint64(0)
        size = np.int64(sizes[cell])
        at = np.int64(starts[cell])
        cell += columns
        if size < 0:
            there[row] = 0
            nulls += 1
        elif size < _NUMERIC_HEADER or size != _NUMERIC_HEADER + 2 * _int16(rows, at):
            return -1
        else:
            digits = _int16(rows, at)
            sign = _int16(rows, at + 4) & 0xFFFF
            if sign >= _NAN or _int16(rows, at + 6) != scale:
                odd[row] = 1
            elif digits > 0:
                # So many decimals follow the last digit; where fewer than none do, its own end is zeros.
                follow = 4 * (_int16(rows, at + 2) - digits + 1) + scale
                last = digits - 1 if follow < 0 else digits
                for digit in range(last):
                    low, high = _times_plus(low, high, _BASE, _int16(rows, at + _NUMERIC_HEADER + 2 * digit))
                if follow < 0:
                    cut = 10**-follow
                    value = _int16(rows, at + _NUMERIC_HEADER + 2 * last)
                    low, high = _times_plus(low, high, _BASE // cut, value // cut)
                while follow > 0:
                    step = min(follow, 4)
                    low, high = _times_plus(low, high, 10**step, 0)
                    follow -= step
                if sign == _NEGATIVE:
                    low = ~low + np.uint64(1)
                    high = ~high + np.uint64(1 if low == 0 else 0)
        out[row, 0] = low
        out[row, 1] = high
    return nulls
