"""
From PostgreSQL's text to typed Arrow columns: whole columns at once, no Python per value.

The ordinary case is one strict cast of the whole column; Arrow's casts refuse what they can't hold
exactly. Only when one refuses are the odd values looked for; they become NULL, and
:mod:`pgsluice.schema.typed.arrow_rows` marks them. What passes the guard and still is no value of the
type raises. :mod:`pgsluice.schema.typed.spark_column` is the same in the JVM; a test holds them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import UntypedValueError
from pgsluice.schema.typed.arrow_array import element_texts
from pgsluice.schema.typed.arrow_bytea import decode_hex
from pgsluice.schema.typed.limits import HIGHEST, LOWEST
from pgsluice.schema.typed.shape import Shape, arrow_type, shape_of

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType
    from pgsluice.schema.typed.choices import SpecialValues


def arrow_column(
    values: pa.ChunkedArray | pa.Array, column_type: PgType, choices: SpecialValues
) -> pa.ChunkedArray | pa.Array:
    """The typed column of a text column; NULL where the value does not fit."""
    shape = shape_of(column_type, choices)
    if isinstance(values, pa.ChunkedArray):
        chunks = [convert(chunk, shape, choices)[0] for chunk in values.chunks]
        return pa.chunked_array(chunks, arrow_type(shape))
    return convert(values, shape, choices)[0]


def convert(
    values: pa.Array, shape: Shape, choices: SpecialValues
) -> tuple[pa.Array, pa.BooleanArray | None]:
    """The typed column, and which values it does not hold as they are; None when it holds them all."""
    if shape.exact:
        return values, None
    if shape.element is not None:
        return _convert_arrays(values, shape, choices)
    typed, misfits = _guarded(values, shape)
    if misfits is None:
        return typed, None
    match shape.choice(choices):
        case "stop":
            raise _error(f"a value that has no place in {typed.type}", misfits)
        case "clamp":
            return pc.if_else(misfits, _nearest(values, shape), typed), misfits
    return typed, misfits


def _guarded(values: pa.Array, shape: Shape) -> tuple[pa.Array, pa.BooleanArray | None]:
    typed = _quick(values, shape)
    if typed is not None:
        return typed, None
    guard = _fits(values, shape)
    if guard is None or pc.all(guard, min_count=0).as_py():
        return _cast(values, shape), None
    fitting = pc.if_else(guard, values, pa.scalar(None, pa.string()))
    return _cast(fitting, shape), pc.fill_null(pc.invert(guard), False)


def _quick(values: pa.Array, shape: Shape) -> pa.Array | None:
    """The whole column in one cast; None when something in it needs a second look."""
    # Of the casts only this one takes more than the guard does: other offsets than UTC's.
    if shape.family == "timestamptz" and not pc.all(pc.ends_with(values, "+00"), min_count=0).as_py():
        return None
    try:
        return _plain_cast(values, shape)
    except pa.ArrowInvalid:
        return None


def _fits(values: pa.Array, shape: Shape) -> pa.BooleanArray | None:
    """Whether the typed column can hold the values; the same questions as in Spark, None for always."""
    match shape.family:
        case "date":  # only the years 1 to 9999 have this length
            return pc.equal(pc.binary_length(values), len("0001-01-01"))
        case "timestamp":
            return pc.and_not(_has_short_year(values), pc.ends_with(values, "BC"))
        case "timestamptz":  # sessions are pinned to UTC: another offset is not ours to interpret
            return pc.and_(_has_short_year(values), pc.ends_with(values, "+00"))
        case "decimal" if shape.scale > 0:  # as many digits as declared
            return pc.match_substring_regex(values, rf"(?s)\..{{{shape.scale}}}$")
        case "decimal":
            return pc.invert(pc.match_substring_regex(values, r"\.|^NaN$|^-?Infinity$"))
        case "bytea":
            return pc.starts_with(values, "\\x")
        case _:
            return None


def _has_short_year(values: pa.Array) -> pa.BooleanArray:
    return pc.match_substring_regex(values, "^[0-9]{4}-")


def _cast(values: pa.Array, shape: Shape) -> pa.Array:
    try:
        return _plain_cast(values, shape)
    except pa.ArrowInvalid:
        is_misread = pa.array([not _is_castable(values.slice(i, 1), shape) for i in range(len(values))])
        # Not "from" Arrow's error: that one shows the value, and values don't belong in messages.
        raise _error(f"text that is no value of its type, {arrow_type(shape)}", is_misread) from None


def _is_castable(value: pa.Array, shape: Shape) -> bool:
    try:
        _plain_cast(value, shape)
    except pa.ArrowInvalid:
        return False
    return True


def _plain_cast(values: pa.Array, shape: Shape) -> pa.Array:
    match shape.family:
        case "bool":
            return _bools(values)
        case "bytea":
            return decode_hex(values)
        case _:
            return pc.cast(values, arrow_type(shape))


def _bools(values: pa.Array) -> pa.Array:
    is_true = pc.equal(values, "t")
    if not pc.all(pc.or_(is_true, pc.equal(values, "f")), min_count=0).as_py():
        raise pa.ArrowInvalid("neither t nor f")
    return is_true


def _error(problem: str, rows: pa.BooleanArray) -> UntypedValueError:
    return UntypedValueError(
        problem,
        remedy="Choose null or string for such values, or mend the value in the source",
        row=pc.index(rows, value=True).as_py(),
    )


def _nearest(values: pa.Array, shape: Shape) -> pa.Array:
    target = arrow_type(shape)
    is_early = pc.or_(pc.ends_with(values, "BC"), pc.equal(values, "-infinity"))
    is_late = pc.or_(pc.equal(values, "infinity"), pc.match_substring_regex(values, "^[0-9]{5,}-"))
    lowest, highest = (pa.scalar(limit[shape.family]).cast(target) for limit in (LOWEST, HIGHEST))
    return pc.if_else(is_early, lowest, pc.if_else(is_late, highest, pa.scalar(None, target)))


def _convert_arrays(
    values: pa.Array, shape: Shape, choices: SpecialValues
) -> tuple[pa.Array, pa.BooleanArray | None]:
    texts, is_misread = element_texts(values)
    if is_misread is not None:
        raise _error("text that is no array", is_misread)
    misfits = _and_not(texts.is_null(), values.is_null())
    if misfits is not None and shape.choice(choices) == "stop":
        raise _error("an array with more dimensions than one, or another lower bound than 1", misfits)
    elements, odd = _convert_elements(texts, shape, choices)
    is_null = texts.is_null()
    if odd is not None:
        # One element that does not fit makes the whole array untyped: a NULL among the others would lie.
        misfits = odd if misfits is None else pc.or_(misfits, odd)
        if shape.leaf.choice(choices) != "clamp":
            is_null = pc.or_(is_null, odd)
    mask = is_null if pc.any(is_null, min_count=0).as_py() else None
    return pa.ListArray.from_arrays(texts.offsets, elements, type=arrow_type(shape), mask=mask), misfits


def _convert_elements(
    texts: pa.ListArray, shape: Shape, choices: SpecialValues
) -> tuple[pa.Array, pa.BooleanArray | None]:
    """The typed elements of all arrays, and which arrays have one that does not fit."""
    owners = pc.list_parent_indices(texts)
    try:
        elements, odd = convert(texts.flatten(), shape.leaf, choices)
    except UntypedValueError as error:
        row = owners[error.fields["row"]].as_py()
        raise UntypedValueError(error.message, remedy=error.remedy, row=row) from None
    if odd is None:
        return elements, None
    rows = np.zeros(len(texts), np.bool_)
    rows[owners.filter(odd).to_numpy()] = True
    return elements, pa.array(rows)


def _and_not(left: pa.BooleanArray, right: pa.BooleanArray) -> pa.BooleanArray | None:
    both = pc.and_not(left, right)
    return both if pc.any(both, min_count=0).as_py() else None
