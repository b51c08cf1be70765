"""
From PostgreSQL's text to typed values in the JVM: one guarded expression per type.

A bare cast would turn 44 BC into 44 AD and round a decimal; ``try_cast`` alone would lose an infinity
without a word. So every cast stands behind a guard, cheap enough to be asked of each value, and what
does not fit is NULL here, which :mod:`pgsluice.schema.typed.spark_rows` sees and marks.
:mod:`pgsluice.schema.typed.arrow_column` is the same in Arrow; a test holds them equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from pyspark.sql.types import ArrayType, StringType

from pgsluice.errors import UntypedValueError
from pgsluice.schema.typed.limits import HIGHEST, LOWEST
from pgsluice.schema.typed.shape import Shape, shape_of, spark_type
from pgsluice.schema.typed.spark_array import element_texts, let

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from pgsluice.schema.table import PgType
    from pgsluice.schema.typed.choices import SpecialValues


def spark_column(
    value: Column, column_type: PgType, choices: SpecialValues, where: Column | None = None
) -> Column:
    """
    The typed column of a text column; NULL where the value does not fit.

    With the choice ``stop`` such a value raises instead, and ``where`` says in the message what it is.
    """
    return convert(value, shape_of(column_type, choices), choices, where)


def convert(value: Column, shape: Shape, choices: SpecialValues, where: Column | None = None) -> Column:
    """The same as :func:`spark_column`, for a shape."""
    if shape.exact:
        return value
    if shape.element is not None:
        return _array(value, shape, choices, where)
    typed = _CONVERSIONS[shape.family](value, shape)
    if shape.choice(choices) == "clamp":
        typed = F.coalesce(typed, _nearest(value, shape))
    if shape.choice(choices) == "stop":
        typed = F.coalesce(typed, _stop(value, spark_type(shape), where))
    return typed


def _plain_cast(value: Column, shape: Shape) -> Column:
    return value.try_cast(spark_type(shape))


def _bool(value: Column, shape: Shape) -> Column:
    return F.when(value == "t", True).when(value == "f", False)


def _decimal(value: Column, shape: Shape) -> Column:
    # Spark would round away digits beyond the scale.
    point = F.instr(value, ".")
    fits = (point == 0) | (F.length(value) - point <= shape.scale)
    return F.when(fits, value.try_cast(spark_type(shape)))


def _date(value: Column, shape: Shape) -> Column:
    # Of all that PostgreSQL writes, only the years 1 to 9999 have this length.
    return F.when(F.length(value) == len("0001-01-01"), value.try_cast(spark_type(shape)))


def _timestamp(value: Column, shape: Shape) -> Column:
    fits = (F.instr(value, "-") == len("0001-")) & ~value.endswith("BC")
    return F.when(fits, value.try_cast(spark_type(shape)))


def _timestamptz(value: Column, shape: Shape) -> Column:
    # Sessions are pinned to UTC; without the offset Spark would take its own session's time zone.
    fits = (F.instr(value, "-") == len("0001-")) & value.endswith("+00")
    return F.when(fits, value.try_cast(spark_type(shape)))


def _bytea(value: Column, shape: Shape) -> Column:
    fits = value.startswith("\\x") & (F.length(value) % 2 == 0)
    return F.when(fits, F.unhex(F.substring(value, len("\\x") + 1, 2**31 - 1)))


_CONVERSIONS: Final[dict[str, Callable[[Column, Shape], Column]]] = {
    "bool": _bool,
    "int2": _plain_cast,
    "int4": _plain_cast,
    "int8": _plain_cast,
    "float4": _plain_cast,
    "float8": _plain_cast,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "bytea": _bytea,
}


def _nearest(value: Column, shape: Shape) -> Column:
    target = spark_type(shape)
    is_early = value.endswith("BC") | (value == "-infinity")
    is_late = (value == "infinity") | value.rlike("^[0-9]{5,}-")
    return F.when(is_early, F.lit(LOWEST[shape.family]).cast(target)).when(
        is_late, F.lit(HIGHEST[shape.family]).cast(target)
    )


def _stop(value: Column, target: DataType, where: Column | None) -> Column:
    message = F.concat(
        F.lit(f"{UntypedValueError.code}: "),
        F.lit("a value") if where is None else where,
        F.lit(f" does not fit its typed column ({target.simpleString()})"),
    )
    return F.when(value.isNotNull(), F.raise_error(message).cast(target))


def _array(value: Column, shape: Shape, choices: SpecialValues, where: Column | None) -> Column:
    element = shape.leaf
    texts = element_texts(value)
    if shape.choice(choices) == "stop":
        texts = F.coalesce(texts, _stop(value, ArrayType(StringType()), where))
    if element.exact:
        return texts
    return let(texts, lambda known: _typed_elements(known, element, choices, where))


def _typed_elements(texts: Column, element: Shape, choices: SpecialValues, where: Column | None) -> Column:
    def misfit(text: Column) -> Column:
        return text.isNotNull() & convert(text, element, choices, where).isNull()

    # One element that does not fit makes the whole array untyped: a NULL among the others would lie.
    return F.when(
        ~F.exists(texts, misfit), F.transform(texts, lambda text: convert(text, element, choices, where))
    )
