"""
Rows in COPY's binary format, column by column as typed Arrow arrays.

Most of what the text costs is saved: the server writes no digits, and nobody has to read them. It serves for
most types (:mod:`pgsluice.source.scan.forms`); where another one is among the columns, all come as text.

Values that a typed column can't hold are few. They are written as the server would write them, and go the
way of the text (:mod:`pgsluice.schema.typed.arrow_column`), which decides what becomes of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import DecodeError
from pgsluice.schema.typed.arrow_column import convert
from pgsluice.schema.typed.shape import arrow_type
from pgsluice.source.scan import fields
from pgsluice.source.scan.odd_values import DATE_BOUNDS, TIME_BOUNDS, date_text, numeric_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.schema.typed.shape import Shape
    from pgsluice.source.scan.forms import TypedColumn
    from pgsluice.source.scan.layout import ReadColumn
    from pgsluice.source.snapshot.kernel import Bytes

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
_HEADER_BYTES: Final = len(_SIGNATURE) + 8  # flags, and the length of what else there is: nothing
_UUID_CHARACTERS: Final = 36
_EPOCH_DAYS: Final = 10_957  # from 1970 to 2000, where PostgreSQL counts from
_EPOCH_MICROSECONDS: Final = _EPOCH_DAYS * 86_400_000_000


class BinaryRows:
    """Some rows."""

    def __init__(self, data: Bytes, columns: int) -> None:
        self._data = data
        self._columns = columns
        most = len(data) // 4  # every field has its length before it
        self._starts = np.empty(most, np.int32)  # what stays empty takes no memory
        self._sizes = np.empty(most, np.int32)
        self._totals = np.zeros(columns, np.int64)
        begin = _HEADER_BYTES if data[: len(_SIGNATURE)].tobytes() == _SIGNATURE else 0
        self.rows = int(fields.find_fields(data, begin, columns, self._starts, self._sizes, self._totals))
        if self.rows < 0:
            raise DecodeError(f"what was read are no rows of {columns} values")

    def typed(self, number: int, column: ReadColumn, special: SpecialValues) -> TypedColumn:
        """A column, which of its values it does not hold as they are, and their texts."""
        shape = column.shape
        match column.form:
            case "text" | "bytes":
                return self._bytes(number, shape), None, None
            case "jsonb":
                return self._bytes(number, shape, skipped=1), None, None  # the version of its format
            case "uuid":
                return self._uuids(number, shape), None, None
            case "bool":
                return self._bools(number, shape), None, None
            case "number":
                return self._fixed(*self._numbers(number, shape), shape), None, None
            case "decimal":
                return self._decimals(number, shape, special)
            case "date":
                return self._days(number, shape, special)
            case "time":
                return self._times(number, shape, special)
        raise AssertionError(f"{column.name} was to be read as text")

    def _fixed(self, values: npt.NDArray[Any], valid: pa.Buffer | None, nulls: int, shape: Shape) -> pa.Array:
        return pa.Array.from_buffers(arrow_type(shape), self.rows, [valid, pa.py_buffer(values)], nulls)

    def _numbers(self, column: int, shape: Shape) -> tuple[npt.NDArray[Any], pa.Buffer | None, int]:
        out = np.empty(self.rows, f"u{max(1, arrow_type(shape).bit_width // 8)}")
        there = np.ones(self.rows, np.uint8)
        nulls = fields.fill_numbers(self._data, self._starts, self._sizes, column, self._columns, there, out)
        return out, self._valid(there, nulls), nulls

    def _valid(self, there: Bytes, nulls: int) -> pa.Buffer | None:
        if nulls < 0:
            raise DecodeError("a value that was read has not the length of its type")
        return pa.py_buffer(np.packbits(there, bitorder="little")) if nulls else None

    def _bools(self, column: int, shape: Shape) -> pa.Array:
        values, valid, nulls = self._numbers(column, shape)
        bits = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), self.rows, [valid, bits], nulls)

    def _bytes(self, column: int, shape: Shape, *, skipped: int = 0) -> pa.Array:
        return self._varying(column, shape, self._totals[column], fields.fill_bytes, skipped)

    def _uuids(self, column: int, shape: Shape) -> pa.Array:
        return self._varying(column, shape, self.rows * _UUID_CHARACTERS, fields.fill_uuids)

    def _varying(self, column: int, shape: Shape, size: int, fill: Callable[..., int], *how: int) -> pa.Array:
        """A column whose values have lengths of their own, ``size`` bytes at most."""
        out = np.empty(size, np.uint8)
        to = np.zeros(self.rows + 1, np.int32)
        there = np.ones(self.rows, np.uint8)
        nulls = fill(self._data, self._starts, self._sizes, column, self._columns, *how, there, to, out)
        buffers = [self._valid(there, nulls), pa.py_buffer(to), pa.py_buffer(out)]
        return pa.Array.from_buffers(arrow_type(shape), self.rows, buffers, nulls)

    def _days(self, column: int, shape: Shape, special: SpecialValues) -> TypedColumn:
        return self._counted(column, shape, special, DATE_BOUNDS, _EPOCH_DAYS, date_text)

    def _times(self, column: int, shape: Shape, special: SpecialValues) -> TypedColumn:
        text = partial(time_text, with_zone=shape.family == "timestamptz")
        return self._counted(column, shape, special, TIME_BOUNDS, _EPOCH_MICROSECONDS, text)

    def _counted(
        self,
        column: int,
        shape: Shape,
        special: SpecialValues,
        bounds: tuple[int, int],
        epoch: int,
        text: Callable[[int], str],
    ) -> TypedColumn:
        """Days or microseconds from PostgreSQL's epoch, as Arrow's."""
        unsigned, valid, nulls = self._numbers(column, shape)
        values = unsigned.view(f"i{unsigned.itemsize}")
        odd = (values < bounds[0]) | (values > bounds[1])
        texts: pa.Array | None = None
        if odd.any():
            found, which = np.unique(values[odd], return_inverse=True)  # mostly infinity, and often
            texts = pa.array([text(int(each)) for each in found]).take(pa.array(which))
            values[odd] = 0
        values += epoch
        typed = self._fixed(values, valid, nulls, shape)
        return (typed, None, None) if texts is None else _with_odd(typed, odd, texts, shape, special)

    def _decimals(self, column: int, shape: Shape, special: SpecialValues) -> TypedColumn:
        out = np.empty((self.rows, 2), np.uint64)
        there = np.ones(self.rows, np.uint8)
        odd = np.zeros(self.rows, np.uint8)
        nulls = fields.fill_decimals(
            self._data, self._starts, self._sizes, column, self._columns, shape.scale, there, odd, out
        )
        valid = self._valid(there, nulls)
        typed = pa.Array.from_buffers(arrow_type(shape), self.rows, [valid, pa.py_buffer(out)], nulls)
        if not odd.any():
            return typed, None, None
        cells = np.flatnonzero(odd) * self._columns + column
        starts, sizes = self._starts[cells], self._sizes[cells]
        texts = pa.array(
            [
                numeric_text(self._data[start : start + size].tobytes())
                for start, size in zip(starts, sizes, strict=True)
            ]
        )
        return _with_odd(typed, odd.view(np.bool_), texts, shape, special)


def _with_odd(
    typed: pa.Array, odd: npt.NDArray[np.bool_], found: pa.Array, shape: Shape, special: SpecialValues
) -> TypedColumn:
    """The column with what the text's way makes of the odd values."""
    is_odd = pa.array(odd)
    texts = pc.replace_with_mask(pa.nulls(len(typed), pa.string()), is_odd, found)
    instead, misfits = convert(texts, shape, special)
    return pc.if_else(is_odd, instead, typed), misfits, texts
