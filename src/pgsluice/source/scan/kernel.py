"""The compiled passes of a read: lines of COPY to cells, and the cells of one column to Arrow's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pgsluice.changelog.compiled import compiled, copy_bytes, trailing_zeros
from pgsluice.errors import DecodeError
from pgsluice.schema.typed.arrow_column import convert
from pgsluice.source.snapshot.kernel import unescaped

if TYPE_CHECKING:
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.source.scan.forms import TypedColumn
    from pgsluice.source.scan.layout import ReadColumn
    from pgsluice.source.snapshot.kernel import Bytes

_TAB: Final = 9
_LINE: Final = 10
_BACKSLASH: Final = 92
_N: Final = 78

# Eight bytes are looked at at once: most of them are part of a value and need no second look.
_WORD: Final = 8
_EACH: Final = np.uint64(0x0101010101010101)
_LOW_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_TABS: Final = np.uint64(_TAB) * _EACH
_LINES: Final = np.uint64(_LINE) * _EACH
_BACKSLASHES: Final = np.uint64(_BACKSLASH) * _EACH
_ONE: Final = np.uint64(1)
_FOUND: Final = np.uint64(0x80)


@compiled
def _where(word: Any, wanted: Any) -> Any:
    """The highest bit of each byte of a word that is the wanted one."""
    odd = word ^ wanted
    return ~(((odd & _LOW_BITS) + _LOW_BITS) | odd | _LOW_BITS)


@compiled
def _last_marks(lines: Bytes, start: int) -> Any:
    """The same for the bytes after the last whole word."""
    found = np.uint64(0)
    for at in range(start, len(lines)):
        if lines[at] in (_TAB, _LINE, _BACKSLASH):
            found |= _FOUND << np.uint64((at - start) * 8)
    return found


@compiled
def find_cells(lines: Bytes, columns: int, ends: Any, sizes: Any) -> int:
    """
    Find the end of every cell, row by row; gives how many rows there are, or -1 for one of another width.

    A tab or line end inside a value is written by a backslash and a letter, so each that is found ends a
    cell. The end of a cell with escapes, or of NULL, is given as its complement; ``sizes`` gets how many
    bytes the cells of each column have.
    """
    words = lines[: len(lines) // _WORD * _WORD].view(np.uint64)
    rows = 0
    cell = 0
    column = 0
    start = 0
    escaped = False
    for number in range(len(words) + 1):
        if number < len(words):
            word = words[number]
            found = _where(word, _TABS) | _where(word, _LINES) | _where(word, _BACKSLASHES)
        else:
            found = _last_marks(lines, number * _WORD)
        while found != 0:
            at = number * _WORD + int(trailing_zeros(found)) // 8
            found &= found - _ONE
            byte = lines[at]
            if byte == _BACKSLASH:
                escaped = True
                continue
            if column < columns:  # a row without columns is an empty line
                ends[cell] = ~at if escaped else at
                sizes[column] += at - start
                cell += 1
            start = at + 1
            escaped = False
            column += 1
            if byte == _LINE:
                if column != max(columns, 1):
                    return -1
                column = 0
                rows += 1
    return rows


@compiled
def _fill_column(
    lines: Bytes,
    ends: Any,
    columns: int,
    column: int,
    rows: int,
    plain: Bytes,
    to: Any,
    there: Bytes,
    out: Bytes,
) -> int:
    """Write the cells of a column one after the other; gives how many are NULL."""
    nulls = 0
    at = np.int64(0)
    for row in range(rows):
        cell = row * columns + column
        start = ends[cell - 1] if cell else -1
        start = np.int64((start if start >= 0 or cell == 0 else ~start) + 1)
        end = np.int64(ends[cell])
        if end >= 0:
            copy_bytes(out, at, lines, start, end - start)
            at += end - start
        else:
            end = ~end
            if end - start == 2 and lines[start + 1] == _N:
                there[row] = 0
                nulls += 1
            else:
                while start < end:
                    byte = lines[start]
                    if byte == _BACKSLASH:
                        start += 1
                        byte = plain[lines[start]]
                    out[at] = byte
                    at += 1
                    start += 1
        to[row + 1] = at
    return nulls


class Cells:
    """The cells of some lines, a column at a time."""

    def __init__(self, lines: Bytes, columns: int) -> None:
        self._lines = lines
        self._columns = columns
        self._ends = np.empty(
            len(lines), np.int32
        )  # more than there can be: what stays empty takes no memory
        self._sizes = np.zeros(columns, np.int64)
        self.rows = int(find_cells(lines, columns, self._ends, self._sizes))
        if self.rows < 0:
            raise DecodeError(f"a row that was read has not {columns} values")

    def typed(self, number: int, column: ReadColumn, special: SpecialValues) -> TypedColumn:
        """A column, which of its values it does not hold as they are, and their texts."""
        texts = self.texts(number)
        return *convert(texts, column.shape, special), texts

    def texts(self, column: int) -> pa.StringArray:
        """The texts of one column."""
        out = np.empty(self._sizes[column], np.uint8)
        to = np.zeros(self.rows + 1, np.int32)
        there = np.ones(self.rows, np.uint8)
        nulls = _fill_column(
            self._lines, self._ends, self._columns, column, self.rows, unescaped(), to, there, out
        )
        valid = pa.py_buffer(np.packbits(there, bitorder="little")) if nulls else None
        return pa.StringArray.from_buffers(self.rows, pa.py_buffer(to), pa.py_buffer(out), valid, nulls)
