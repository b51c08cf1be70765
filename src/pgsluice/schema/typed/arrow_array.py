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
    Kinds = npt.NDArray[np.int8]

_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_COMMA: Final = ord(",")
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")

_NOT_FLAT: Final = "[2:2]={}"  # stands for NULL during the pass: comes out as no list
_NULL: Final = pa.scalar(None, pa.string())

_FLAT: Final = 0
_OTHER: Final = 1  # more dimensions than one, or another lower bound than 1
_MISREAD: Final = 2  # no array's text


def element_texts(values: pa.Array) -> tuple[pa.ListArray, pa.BooleanArray | None]:
    """
    Lists of the elements' texts, and which texts are no array's at all; None when all are.

    NULL for an array of more dimensions or another lower bound.
    """
    known = pc.fill_null(_readable(values), _NOT_FLAT)
    offsets, data = _views(known)
    most = int(np.count_nonzero(data == _COMMA)) + len(known)
    ends, taken = np.zeros(most + 1, np.int32), np.zeros(len(data), np.uint8)
    is_null, lists, kinds = (
        np.zeros(most, np.bool_),
        np.zeros(len(known) + 1, np.int32),
        np.zeros(len(known), np.int8),
    )
    count = _take_apart(data, offsets, taken, ends, is_null, lists, kinds)
    texts = pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(ends[: count + 1]), pa.py_buffer(taken[: ends[count]])]
    )
    elements = pc.if_else(pa.array(is_null[:count]), _NULL, texts) if is_null[:count].any() else texts
    is_odd = kinds != _FLAT
    arrays = pa.ListArray.from_arrays(
        pa.array(lists), elements, mask=pa.array(is_odd) if is_odd.any() else None
    )
    return arrays, pa.array(kinds == _MISREAD) if (kinds == _MISREAD).any() else None


def _readable(values: pa.Array) -> pa.Array:
    # Java can't take text apart that is no UTF-8, so here it is not done either.
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return pc.if_else(pa.array([_is_utf8(value) for value in values.view(pa.binary())]), values, _NULL)
    return values


def _is_utf8(value: pa.BinaryScalar) -> bool:
    try:
        (value.as_py() or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _views(texts: pa.Array) -> tuple[Ints, Bytes]:
    _, offsets_buffer, data_buffer = texts.buffers()
    if len(texts) == 0 or data_buffer is None:
        return np.zeros(len(texts) + 1, np.int32), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return offsets, np.frombuffer(data_buffer, np.uint8)


@njit(cache=True, nogil=True)
def _take_apart(
    data: Bytes, offsets: Ints, taken: Bytes, ends: Ints, is_null: Flags, lists: Ints, kinds: Kinds
) -> int:
    count = 0
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if end > start and (data[start] != _OPEN or (end > start + 1 and data[start + 1] == _OPEN)):
            kinds[row] = _OTHER
        else:
            found = _elements(data, start, end, taken, ends, is_null, count)
            kinds[row] = _MISREAD if found < 0 else _FLAT
            count += max(found, 0)
        lists[row + 1] = count
    return count


@njit(cache=True, nogil=True)
def _elements(data: Bytes, at: int, end: int, taken: Bytes, ends: Ints, is_null: Flags, first: int) -> int:
    """The number of elements of one array, written from ``first`` on; -1 when it is not a flat one."""
    if end - at < 2 or data[end - 1] != _CLOSE:
        return -1
    at, end = at + 1, end - 1
    element, out = first, ends[first]
    while at < end:
        start, quoted = out, data[at] == _QUOTE
        if quoted:
            at, out = _quoted(data, at + 1, end, taken, out)
        else:
            at, out = _plain(data, at, end, taken, out)
        if at < 0:
            return -1
        is_null[element] = not quoted and _spells_null(taken, start, out)
        element += 1
        ends[element] = out
        if at < end:
            if data[at] != _COMMA or at + 1 == end:
                return -1
            at += 1
    return element - first


@njit(cache=True, nogil=True)
def _quoted(data: Bytes, at: int, end: int, taken: Bytes, out: int) -> tuple[int, int]:
    """Copy up to the closing quote; where to go on, -1 when there is none."""
    while at < end and data[at] != _QUOTE:
        if data[at] == _BACKSLASH:
            at += 1
        if at < end:
            taken[out] = data[at]
            out += 1
        at += 1
    return (at + 1 if at < end else -1), out


@njit(cache=True, nogil=True)
def _plain(data: Bytes, at: int, end: int, taken: Bytes, out: int) -> tuple[int, int]:
    """Copy up to the next comma; where to go on, -1 when the element is empty or of another form."""
    start = at
    while at < end and data[at] != _COMMA:
        if data[at] == _OPEN or data[at] == _CLOSE or data[at] == _QUOTE:
            return -1, out
        taken[out] = data[at]
        out += 1
        at += 1
    return (at if at > start else -1), out


@njit(cache=True, nogil=True)
def _spells_null(text: Bytes, start: int, end: int) -> bool:
    return bool(
        end - start == 4
        and text[start] == ord("N")
        and text[start + 1] == ord("U")
        and text[start + 2] == ord("L")
        and text[start + 3] == ord("L")
    )
