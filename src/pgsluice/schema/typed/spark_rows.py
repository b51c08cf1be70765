"""
Typed rows of one table version from a frame of envelopes, in Catalyst expressions only.

The order of projections matters: typed values are computed once, and ``_untyped`` looks at them
afterwards (a NULL where there was text). :mod:`pgsluice.schema.typed.arrow_rows` does the same in Arrow.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

from pgsluice.errors import DecodeError
from pgsluice.schema.typed.layout import ABOUT, old_columns, shapes_of
from pgsluice.schema.typed.spark_column import convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.schema.typed.shape import Shape

_ROW: Final = "row"  # name of the array of texts between the projections
_ABSENT: Final = "\0"


def typed_frame(frame: DataFrame, version: TableVersion, choices: SpecialValues) -> DataFrame:
    """The rows of that table version, with the columns of :func:`~.layout.typed_schema`."""
    shapes = shapes_of(version, choices)
    about = [F.col(name).alias(alias) for alias, name in ABOUT.items()]
    chosen = frame.where(F.col("relation") == version.id).select(
        *about, _unchanged(version).alias("_unchanged"), _old(version).alias("_old"), _row(version).alias(_ROW)
    )
    kept = [*ABOUT, "_unchanged", "_old"]
    typed = [
        convert(_text(i), shape, choices, _where(version, i)).alias(_name(i)) for i, shape in enumerate(shapes)
    ]
    computed = chosen.select(*kept, _ROW, *typed)
    marked = computed.select(
        *(F.col(_name(i)).alias(column.name) for i, column in enumerate(version.columns)),
        *kept,
        _untyped(version, shapes, choices).alias("_untyped"),
    )
    return marked


def _name(index: int) -> str:
    return f"c{index}"


def _text(index: int) -> Column:
    return F.get(F.col(_ROW), F.lit(index))


def _row(version: TableVersion) -> Column:
    # A deleted row has no new values: what is known of it is the old row.
    row = F.coalesce(F.col("values"), F.col("old"))
    count = len(version.columns)
    message = f"{DecodeError.code}: a row of {version.qualified} has not {count} values, as version {version.id} has"
    return F.when(F.size(row) == count, row).when(
        row.isNotNull(), F.raise_error(F.lit(message)).cast("array<string>")
    )


def _where(version: TableVersion, index: int) -> Column:
    lsn = F.col("_lsn")
    high, low = F.hex(F.shiftrightunsigned(lsn, 32)), F.hex(lsn.bitwiseAND(0xFFFFFFFF))
    column = f"{version.qualified}.{version.columns[index].name}"
    return F.concat(F.lit(f"{column} at "), high, F.lit("/"), low, F.lit(" change "), F.col("_seq").cast("string"))


def _unchanged(version: TableVersion) -> Column:
    unchanged = F.col("unchanged")
    names = _present([(F.array_contains(unchanged, i), F.lit(c.name)) for i, c in enumerate(version.columns)])
    return F.when(F.size(unchanged) > 0, names).otherwise(F.array().cast("array<string>"))


def _present(candidates: Sequence[tuple[Column, Column]]) -> Column:
    # Not filter() or map_filter(): a lambda anywhere keeps Spark from compiling the whole stage. Neither
    # names nor values of PostgreSQL can hold NUL.
    return F.array_remove(F.array(*(F.when(is_so, text).otherwise(_ABSENT) for is_so, text in candidates)), _ABSENT)


def _old(version: TableVersion) -> Column:
    indexes = old_columns(version)
    if not indexes:
        return F.lit(None).cast("map<string,string>")
    pairs = [
        part for i in indexes for part in (F.lit(version.columns[i].name), F.get(F.col("old"), F.lit(i)))
    ]
    return F.when(F.col("old").isNotNull(), F.create_map(*pairs))


def _untyped(version: TableVersion, shapes: Sequence[Shape], choices: SpecialValues) -> Column:
    misfits = {
        i: _misfit(i, shape, choices) for i, shape in enumerate(shapes) if not shape.exact
    }
    if not misfits:
        return F.lit(None).cast("map<string,string>")
    names = _present([(misfit, F.lit(version.columns[i].name)) for i, misfit in misfits.items()])
    texts = _present([(misfit, _text(i)) for i, misfit in misfits.items()])
    return F.when(reduce(or_, misfits.values()), F.map_from_arrays(names, texts))


def _misfit(index: int, shape: Shape, choices: SpecialValues) -> Column:
    typed = convert(_text(index), shape, choices.strict) if shape.clamps(choices) else F.col(_name(index))
    return typed.isNull() & _text(index).isNotNull()
