"""
Typed rows of one table version from a frame of envelopes, in Catalyst expressions only.

:mod:`pgsluice.schema.typed.arrow_rows` does the same in Arrow.
"""

from __future__ import annotations

from dataclasses import astuple
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

from pgsluice.errors import DecodeError
from pgsluice.schema.typed.layout import ABOUT, old_columns, shapes_of
from pgsluice.schema.typed.spark_column import convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues


def typed_frame(frame: DataFrame, version: TableVersion, choices: SpecialValues) -> DataFrame:
    """The rows of that table version, with the columns of :func:`~.layout.typed_schema`."""
    row = F.coalesce(F.col("values"), F.col("old"))  # a deleted row has no new values, only old ones
    at = position() if "stop" in astuple(choices) else None
    typed: list[Column] = []
    misfits: list[tuple[str, Column, Column]] = []
    for i, (column, shape) in enumerate(zip(version.columns, shapes_of(version, choices), strict=True)):
        text = F.get(row, F.lit(i))
        value, misfit = convert(text, shape, choices, f"{version.qualified}.{column.name}", at)
        typed.append(value.alias(column.name))
        if misfit is not None:
            misfits.append((column.name, text, misfit))
    about = [F.col(name).alias(alias) for alias, name in ABOUT.items()]
    added = {"_unchanged": _unchanged(version), "_old": _old(version), "_untyped": _untyped(misfits)}
    return frame.where(_is_row_of(version, row)).select(
        *typed, *about, *(column.alias(name) for name, column in added.items())
    )


def _is_row_of(version: TableVersion, row: Column) -> Column:
    # A row with another number of values belongs to another version: typing it would shift columns.
    count = len(version.columns)
    message = f"{DecodeError.code}: a row of {version.qualified} has not the {count} values of its version"
    is_whole = F.when(row.isNull() | (F.size(row) == count), True).otherwise(F.raise_error(message))
    return (F.col("relation") == version.id) & is_whole


def position() -> Column:
    """Where an entry stands, for people."""
    lsn = F.col("commit_lsn")
    high, low = F.hex(F.shiftrightunsigned(lsn, 32)), F.hex(lsn.bitwiseAND(0xFFFFFFFF))
    return F.concat(high, F.lit("/"), low, F.lit(" change "), F.col("seq").cast("string"))


def _unchanged(version: TableVersion) -> Column:
    names = F.array(*(F.lit(column.name) for column in version.columns))
    named = F.transform(F.col("unchanged"), lambda index: F.get(names, index))
    return F.coalesce(named, F.array().cast("array<string>"))


def _old(version: TableVersion) -> Column:
    indexes = old_columns(version)
    if not indexes:
        return F.lit(None).cast("map<string,string>")
    pairs = [(F.lit(version.columns[i].name), F.get(F.col("old"), F.lit(i))) for i in indexes]
    return F.when(F.col("old").isNotNull(), _map(pairs))


def _untyped(misfits: Sequence[tuple[str, Column, Column]]) -> Column:
    if not misfits:
        return F.lit(None).cast("map<string,string>")
    texts = _map([(F.lit(name), F.when(misfit, text)) for name, text, misfit in misfits])
    # The lambda also keeps Spark from compiling the whole stage into one method. An earlier form without
    # one took over twice the CPU with 8 columns, likely because the JVM leaves methods that large alone.
    named = F.map_filter(texts, lambda _, text: text.isNotNull())
    return F.when(reduce(or_, (misfit for _, _, misfit in misfits)), named)


def _map(pairs: Sequence[tuple[Column, Column]]) -> Column:
    return F.create_map(*(part for pair in pairs for part in pair))
