"""
The texts of one-dimensional arrays, taken apart for a whole column in one compiled pass.

Does what :mod:`pgsluice.schema.typed.spark_array` does in the JVM; the rules of the text stand there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Ints = npt.NDArray[np.int32]
    Flags = npt.NDArray[np.bool_]

_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_COMMA: Final = ord(",")
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")


def element_texts(values: pa.Array) -> pa.ListArray:
    """Lists of the elements' texts; NULL for more dimensions, other lower bounds, or no array."""
    known = pc.fill_null(values, "")  # an empty text is no array, so it comes out as NULL
    offsets, data = _views(known)
    most = int(np.count_nonzero(data == _COMMA)) + len(known)
    ends, taken = np.zeros(most + 1, np.int32), np.zeros(len(data), np.uint8)
    is_null, lists, is_bad = (
        np.zeros(most, np.bool_),
        np.zeros(len(known) + 1, np.int32),
        np.zeros(len(known), np.bool_),
    )
    count = _take_apart(data, offsets, taken, ends, is_null, lists, is_bad)
    texts = pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(ends[: count + 1]), pa.py_buffer(taken[: ends[count]])]
    )
    elements = pc.if_else(pa.array(is_null[:count]), None, texts) if is_null[:count].any() else texts
    return pa.ListArray.from_arrays(
        pa.array(lists), elements, mask=pa.array(is_bad) if is_bad.any() else None
    )


def _views(texts: pa.Array) -> tuple[Ints, Bytes]:
    _, offsets_buffer, data_buffer = texts.buffers()
    if len(texts) == 0 or data_buffer is None:
        return np.zeros(len(texts) + 1, np.int32), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return offsets, np.frombuffer(data_buffer, np.uint8)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _take_apart(
    data: Bytes, offsets: Ints, taken: Bytes, ends: Ints, is_null: Flags, lists: Ints, is_bad: Flags
) -> int:
    count = 0
    for row in range(len(offsets) - 1):
        found = _one(data, offsets[row], offsets[row + 1], taken, ends, is_null, count)
        is_bad[row] = found < 0
        count += max(found, 0)
        lists[row + 1] = count
    return count


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _one(data: Bytes, at: int, end: int, taken: Bytes, ends: Ints, is_null: Flags, first: int) -> int:
    """The number of elements of one array, written from ``first`` on; -1 when it is not a flat one."""
    if end - at < 2 or data[at] != _OPEN or data[end - 1] != _CLOSE:
        return -1
    at, end = at + 1, end - 1
    element, out = first, ends[first]
    while at < end:
        quoted = data[at] == _QUOTE
        start = out
        if quoted:
            at += 1
            while at < end and data[at] != _QUOTE:
                if data[at] == _BACKSLASH:
                    at += 1
                if at < end:
                    taken[out] = data[at]
                    out += 1
                at += 1
            if at >= end:
                return -1
            at += 1
        else:
            while at < end and data[at] != _COMMA:
                if data[at] == _OPEN or data[at] == _CLOSE or data[at] == _QUOTE:
                    return -1
                taken[out] = data[at]
                out += 1
                at += 1
            if out == start:
                return -1
        is_null[element] = not quoted and _spells_null(taken, start, out)
        element += 1
        ends[element] = out
        if at < end:
            if data[at] != _COMMA or at + 1 == end:
                return -1
            at += 1
    return element - first


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _spells_null(text: Bytes, start: int, end: int) -> bool:
    return bool(
        end - start == 4
        and text[start] == ord("N")
        and text[start + 1] == ord("U")
        and text[start + 2] == ord("L")
        and text[start + 3] == ord("L")
    )
