"""The compiled pass of ``copy_text``: cells to the text that COPY reads."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pgsluice.changelog.compiled import compiled, copy_bytes

Bytes = npt.NDArray[np.uint8]

_TAB: Final = 9
_LINE: Final = 10
_RETURN: Final = 13
_BACKSLASH: Final = 92
_N: Final = 78
_N_LOWER, _R, _T = 110, 114, 116


@compiled
def specials(data: Bytes, begin: int, end: int) -> int:
    """How many bytes have to be escaped; without a branch, so that many are looked at at once."""
    found = 0
    for at in range(begin, end):
        byte = data[at]
        found += (byte == _BACKSLASH) | (byte == _TAB) | (byte == _LINE) | (byte == _RETURN)
    return found


@compiled
def size(starts: Any, columns: Any, offsets: Any, data: Bytes, valid: Any, plain: bool) -> int:
    """How many bytes ``fill`` will write; ``plain``: nothing has to be escaped."""
    total = len(starts) * max(len(columns), 1)  # tabs and ends of lines
    for row in range(len(starts)):
        for column in columns:
            cell = starts[row] + column
            if not valid[cell]:
                total += 2
                continue
            begin, end = offsets[cell], offsets[cell + 1]
            total += end - begin
            if not plain:
                total += specials(data, begin, end)
    return total


@compiled
def fill(starts: Any, columns: Any, offsets: Any, data: Bytes, valid: Any, plain: bool, out: Bytes) -> None:
    """Write the rows: cells parted by tabs, NULL as backslash and N, what would part them escaped."""
    to = 0
    for row in range(len(starts)):
        for place in range(len(columns)):
            if place:
                out[to] = _TAB
                to += 1
            cell = starts[row] + columns[place]
            if not valid[cell]:
                out[to] = _BACKSLASH
                out[to + 1] = _N
                to += 2
                continue
            begin, end = offsets[cell], offsets[cell + 1]
            if plain or specials(data, begin, end) == 0:
                copy_bytes(out, to, data, begin, end - begin)
                to += end - begin
            else:
                to = _escape(data, begin, end, out, to)
        out[to] = _LINE
        to += 1


@compiled
def _escape(data: Bytes, begin: int, end: int, out: Bytes, to: int) -> int:
    """Write one cell; the position after it."""
    for at in range(begin, end):
        byte = data[at]
        if byte in (_BACKSLASH, _TAB, _LINE, _RETURN):
            out[to] = _BACKSLASH
            to += 1
            if byte == _TAB:
                byte = _T
            elif byte == _LINE:
                byte = _N_LOWER
            elif byte == _RETURN:
                byte = _R
        out[to] = byte
        to += 1
    return to
