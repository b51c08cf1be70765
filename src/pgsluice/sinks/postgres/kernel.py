"""The compiled pass of ``copy_text``: cells to the text that COPY reads."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pgsluice.changelog.compiled import compiled

Bytes = npt.NDArray[np.uint8]

_TAB: Final = 9
_LINE: Final = 10
_RETURN: Final = 13
_BACKSLASH: Final = 92
_N: Final = 78


@compiled
def size(starts: Any, columns: Any, offsets: Any, data: Bytes, valid: Any) -> int:
    """How many bytes ``fill`` will write."""
    total = 0
    for row in range(len(starts)):
        for column in columns:
            cell = starts[row] + column
            total += 1  # the tab or the end of the line
            if not valid[cell]:
                total += 2
                continue
            begin, end = offsets[cell], offsets[cell + 1]
            total += end - begin
            for at in range(begin, end):
                byte = data[at]
                if byte in (_BACKSLASH, _TAB, _LINE, _RETURN):
                    total += 1
        if len(columns) == 0:
            total += 1
    return total


@compiled
def fill(starts: Any, columns: Any, offsets: Any, data: Bytes, valid: Any, out: Bytes) -> None:
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
            for at in range(offsets[cell], offsets[cell + 1]):
                byte = data[at]
                if byte == _BACKSLASH:
                    out[to] = _BACKSLASH
                    to += 1
                elif byte == _TAB:
                    out[to] = _BACKSLASH
                    to += 1
                    byte = 116  # t
                elif byte == _LINE:
                    out[to] = _BACKSLASH
                    to += 1
                    byte = 110  # n
                elif byte == _RETURN:
                    out[to] = _BACKSLASH
                    to += 1
                    byte = 114  # r
                out[to] = byte
                to += 1
        out[to] = _LINE
        to += 1
