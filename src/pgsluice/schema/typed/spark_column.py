"""
From PostgreSQL's text to typed values in the JVM: one guarded expression per type.

A bare cast would turn 44 BC into 44 AD and round a decimal; ``try_cast`` alone would lose an infinity
without a word. So a cast stands behind a guard, cheap enough to be asked of each value: :func:`fits`.
What does not fit is NULL here, and :mod:`pgsluice.schema.typed.spark_rows` marks it. What passes the
guard and still is no value of the type raises.
:mod:`pgsluice.schema.typed.arrow_column` is the same in Arrow; a test holds them equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

from pgsluice.errors import UntypedValueError
from pgsluice.schema.typed.limits import HIGHEST, LOWEST
from pgsluice.schema.typed.shape import Shape, shape_of, spark_type
from pgsluice.schema.typed.spark_array import element_texts, is_flat

if TYPE_CHECKING:
    from pyspark.sql import Column

    from pgsluice.schema.table import PgType
    from pgsluice.schema.typed.choices import SpecialValues


def spark_column(
    value: Column,
    column_type: PgType,
    choices: SpecialValues,
    name: str = "a value",
    at: Column | None = None,
) -> Column:
    """
    The typed column of a text column; NULL where the value does not fit.

    :param name: of the column, for messages of errors.
    :param at: where the value stands, for the message under the choice ``stop``.
    """
    return convert(value, shape_of(column_type, choices), choices, name, at)[0]


def convert(
    value: Column, shape: Shape, choices: SpecialValues, name: str = "a value", at: Column | None = None
) -> tuple[Column, Column | None]:
    """The typed column, and whether it does not hold the value as it is; None when it always does."""
    typed = value if shape.exact else _cast(value, shape, choices, name)
    guard = fits(value, shape)
    if guard is None:
        return typed, None
    misfit = value.isNotNull() & ~guard
    guarded = F.when(guard, typed)
    if shape.leaf.choice(choices) == "clamp":
        return guarded.otherwise(_nearest(value, shape, choices, name)), misfit
    if "stop" in (shape.choice(choices), shape.leaf.choice(choices)):
        return guarded.when(misfit, _stop(name, f"a value that has no place in {_name(shape)}", at)), misfit
    return guarded, misfit


def fits(value: Column, shape: Shape) -> Column | None:
    """Whether the typed column can hold the value, asked of what PostgreSQL writes; None for always."""
    match shape.family:
        case "date":  # only the years 1 to 9999 have this length
            return F.length(value) == len("0001-01-01")
        case "timestamp":
            return (F.instr(value, "-") == len("0001-")) & ~value.endswith("BC")
        case "timestamptz":  # sessions are pinned to UTC; without an offset Spark would take its own
            return (F.instr(value, "-") == len("0001-")) & value.endswith("+00")
        case "decimal" if shape.scale > 0:  # as many digits as declared: Spark would round away others
            return F.substring(value, -shape.scale - 1, 1) == "."
        case "decimal":
            return (F.instr(value, ".") == 0) & ~value.isin("NaN", "Infinity", "-Infinity")
        case "bytea":
            return value.startswith("\\x")
        case "array":
            return _array_fits(value, shape.leaf)
        case _:
            return None


def _cast(value: Column, shape: Shape, choices: SpecialValues, name: str) -> Column:
    match shape.family:
        case "bool":
            typed = F.when(value == "t", True).when(value == "f", False)
        case "bytea":
            typed = F.when(F.length(value) % 2 == 0, F.unhex(F.substring(value, len("\\x") + 1, 2**31 - 1)))
        case "array":
            typed = _typed_elements(element_texts(value), shape.leaf, choices, name)
        case _:
            typed = value.try_cast(_name(shape))
    misread = _stop(name, f"text that is no value of its type, {_name(shape)}")
    return F.coalesce(typed, F.when(value.isNotNull(), misread))


def _stop(name: str, problem: str, at: Column | None = None) -> Column:
    if at is None:
        return F.raise_error(f"{UntypedValueError.code}: {name} has {problem}")
    return F.raise_error(
        F.concat(F.lit(f"{UntypedValueError.code}: {name} has at "), at, F.lit(f" {problem}"))
    )


def _name(shape: Shape) -> str:
    return spark_type(shape).simpleString()


def _nearest(value: Column, shape: Shape, choices: SpecialValues, name: str) -> Column:
    if shape.element is not None:
        return F.when(is_flat(value), _cast(value, shape, choices, name))
    target = _name(shape)
    is_early = value.endswith("BC") | (value == "-infinity")
    is_late = (value == "infinity") | value.rlike("^[0-9]{5,}-")
    return F.when(is_early, F.lit(LOWEST[shape.family]).cast(target)).when(
        is_late, F.lit(HIGHEST[shape.family]).cast(target)
    )


def _array_fits(value: Column, element: Shape) -> Column:
    # One element that does not fit makes the whole array untyped: a NULL among the others would lie.
    if fits(value, element) is None:
        return is_flat(value)
    return is_flat(value) & F.forall(element_texts(value), lambda text: _element_fits(text, element))


def _element_fits(text: Column, element: Shape) -> Column:
    guard = fits(text, element)
    return F.lit(True) if guard is None else text.isNull() | guard


def _typed_elements(texts: Column, element: Shape, choices: SpecialValues, name: str) -> Column:
    if element.exact:
        return texts
    return F.transform(texts, lambda text: convert(text, element, choices, name)[0])
