"""The compiled passes over what COPY sends: messages of the protocol to lines, lines to cells."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pgsluice.changelog.compiled import compiled, copy_bytes

Bytes = npt.NDArray[np.uint8]

_COPY_DATA: Final = ord("d")
_HEADER: Final = 5  # kind and length

_TAB: Final = 9
_LINE: Final = 10
_BACKSLASH: Final = 92
_N: Final = 78

_UNESCAPED: Final = np.arange(256, dtype=np.uint8)
for _escaped, _plain in zip(b"bfnrtv", b"\b\f\n\r\t\v", strict=True):
    _UNESCAPED[_escaped] = _plain


@compiled
def take_lines(data: Bytes, size: int, out: Bytes) -> tuple[Any, Any]:
    """
    Move the contents of CopyData messages out of their frames, up to the first that is not whole or another.

    Returns how many bytes were consumed, and how many were written.
    """
    at = np.int64(0)
    to = np.int64(0)
    while at + _HEADER <= size and data[at] == _COPY_DATA:
        length = (
            (np.int64(data[at + 1]) << 24)
            | (np.int64(data[at + 2]) << 16)
            | (np.int64(data[at + 3]) << 8)
            | np.int64(data[at + 4])
        )
        if length < 4 or at + 1 + length > size:
            break
        copy_bytes(out, to, data, at + _HEADER, length - 4)
        to += length - 4
        at += 1 + length
    return at, to


@compiled
def count_rows(text: Bytes, size: int) -> tuple[int, int]:
    """How many rows there are, and how many bytes their cells have without escapes."""
    rows = 0
    cells = 0
    at = 0
    while at < size:
        byte = text[at]
        if byte == _BACKSLASH:
            at += 2
            cells += 1
            continue
        if byte == _LINE:
            rows += 1
        elif byte != _TAB:
            cells += 1
        at += 1
    return rows, cells


@compiled
def fill_cells(
    text: Bytes, size: int, columns: int, unescaped: Bytes, ends: Any, there: Bytes, out: Bytes
) -> int:
    """
    Write the cells of all rows; gives how many bytes of text they have, or -1 for a line of another width.

    ``ends`` begins with 0 and gets the end of each cell; ``there`` is 0 for NULL.
    """
    at = 0
    to = 0
    cell = 0
    column = 0
    while at < size:
        byte = text[at]
        if byte == _BACKSLASH:
            following = text[at + 1]
            if following == _N:
                there[cell] = 0
            else:
                out[to] = unescaped[following]
                to += 1
            at += 2
            continue
        if byte in (_TAB, _LINE):
            if column < columns:  # a table without columns has lines and no cells
                cell += 1
                ends[cell] = to
            column += 1
            if byte == _LINE:
                if column != max(columns, 1):
                    return -1
                column = 0
            elif column >= columns:
                return -1
        else:
            out[to] = byte
            to += 1
        at += 1
    return to


def unescaped() -> Bytes:
    """What a letter after a backslash stands for."""
    return _UNESCAPED
