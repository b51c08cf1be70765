"""
From PostgreSQL's text to typed Arrow columns: whole columns at once, no Python per value.

The ordinary case is one strict cast of the whole column; Arrow's casts refuse what they can't hold
exactly. Only when one refuses are the odd values looked for; they become NULL, which
:mod:`pgsluice.schema.typed.arrow_rows` sees and marks. :mod:`pgsluice.schema.typed.spark_column` is the
same in the JVM; a test holds them equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

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

_ORDINARY: Final[Mapping[str, str]] = {
    "int2": r"^-?[0-9]+$",
    "int4": r"^-?[0-9]+$",
    "int8": r"^-?[0-9]+$",
    "float4": r"^-?([0-9.]+(e[+-][0-9]+)?|Infinity)$|^NaN$",
    "float8": r"^-?([0-9.]+(e[+-][0-9]+)?|Infinity)$|^NaN$",
    "decimal": r"^-?[0-9]+(\.[0-9]+)?$",
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(\.[0-9]{1,6})?$",
    "timestamptz": r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(\.[0-9]{1,6})?\+00$",
}
"""What PostgreSQL writes for the values that a column can hold."""


def arrow_column(
    values: pa.ChunkedArray | pa.Array, column_type: PgType, choices: SpecialValues
) -> pa.ChunkedArray | pa.Array:
    """The typed column of a text column; NULL where the value does not fit."""
    return convert(values, shape_of(column_type, choices), choices)


def convert(
    values: pa.ChunkedArray | pa.Array, shape: Shape, choices: SpecialValues
) -> pa.ChunkedArray | pa.Array:
    """The same as :func:`arrow_column`, for a shape."""
    if shape.exact:
        return values
    if isinstance(values, pa.ChunkedArray):
        chunks = [convert(chunk, shape, choices) for chunk in values.chunks]
        return pa.chunked_array(chunks, arrow_type(shape))
    if shape.element is not None:
        return _array(values, shape, choices)
    typed = _CONVERSIONS.get(shape.family, _strict_cast)(values, shape)
    choice = shape.choice(choices)
    if typed.null_count == values.null_count or choice in ("null", "string"):
        return typed
    if choice == "clamp":
        return pc.coalesce(typed, _nearest(values, shape))
    raise first_misfit(values, typed)


def misfits(values: pa.Array, typed: pa.Array) -> pa.BooleanArray:
    """Which values have text and no typed value."""
    return pc.and_(pc.is_valid(values), pc.is_null(typed))


def first_misfit(values: pa.Array, typed: pa.Array) -> UntypedValueError:
    """The error for a column with a value that does not fit; the caller knows whose it is."""
    return UntypedValueError(
        f"a value does not fit its typed column ({typed.type})",
        remedy="Choose null, clamp or string for such values, or mend the value",
        row=pc.index(misfits(values, typed), value=True).as_py(),
    )


def _strict_cast(values: pa.Array, shape: Shape) -> pa.Array:
    target = arrow_type(shape)
    try:
        return pc.cast(values, target)
    except pa.ArrowInvalid:
        pass
    is_ordinary = pc.match_substring_regex(values.cast(pa.binary()), _ORDINARY[shape.family])
    ordinary = pc.if_else(is_ordinary, values, None)
    try:
        return pc.cast(ordinary, target)
    except pa.ArrowInvalid:
        # No server writes such text (2023-02-30, an int4 of ten nines): one by one is good enough.
        return pa.array([_cast_one(value, target) for value in ordinary], target)


def _cast_one(value: pa.Scalar, target: pa.DataType) -> pa.Scalar | None:
    try:
        return value.cast(target)
    except pa.ArrowInvalid:
        return None


def _bool(values: pa.Array, shape: Shape) -> pa.Array:  # noqa: ARG001
    is_true = pc.equal(values, "t")
    is_known = pc.or_(is_true, pc.equal(values, "f"))
    return pc.if_else(is_known, is_true, None)


def _timestamptz(values: pa.Array, shape: Shape) -> pa.Array:
    # Sessions are pinned to UTC: another offset is not ours to interpret.
    is_utc = pc.ends_with(values, "+00")
    if not pc.all(is_utc, min_count=0).as_py():
        values = pc.if_else(is_utc, values, None)
    return _strict_cast(values, shape)


def _bytea(values: pa.Array, shape: Shape) -> pa.Array:  # noqa: ARG001
    return decode_hex(values)


_CONVERSIONS: Final[Mapping[str, Callable[[pa.Array, Shape], pa.Array]]] = {
    "bool": _bool,
    "timestamptz": _timestamptz,
    "bytea": _bytea,
}


def _nearest(values: pa.Array, shape: Shape) -> pa.Array:
    target = arrow_type(shape)
    is_early = pc.or_(pc.ends_with(values, "BC"), pc.equal(values, "-infinity"))
    is_late = pc.or_(
        pc.equal(values, "infinity"), pc.match_substring_regex(values.cast(pa.binary()), "^[0-9]{5,}-")
    )
    lowest, highest = (pa.scalar(limit[shape.family]).cast(target) for limit in (LOWEST, HIGHEST))
    return pc.if_else(is_early, lowest, pc.if_else(is_late, highest, pa.scalar(None, target)))


def _array(values: pa.Array, shape: Shape, choices: SpecialValues) -> pa.Array:
    texts = element_texts(values)
    if texts.null_count > values.null_count and shape.choice(choices) == "stop":
        raise first_misfit(values, texts)
    elements = texts.flatten()
    typed = convert(elements, shape.leaf, choices)
    refused = misfits(elements, typed)
    is_null = pc.is_null(texts)
    if pc.any(refused, min_count=0).as_py():
        # One element that does not fit makes the whole array untyped: a NULL among the others would lie.
        rows = pc.unique(pc.list_parent_indices(texts).filter(refused))
        is_null = pc.or_(is_null, pc.is_in(pa.array(range(len(texts)), rows.type), rows))
    return _lists(texts, typed, is_null, arrow_type(shape))


def _lists(texts: pa.ListArray, typed: pa.Array, is_null: pa.BooleanArray, target: pa.DataType) -> pa.Array:
    mask = is_null if pc.any(is_null, min_count=0).as_py() else None
    return pa.ListArray.from_arrays(texts.offsets, typed, type=target, mask=mask)
