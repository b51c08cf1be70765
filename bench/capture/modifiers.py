"""The chain of figure 5: a filter over a typed column, and a projection of typed columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from pgsluice.schema.typed.choices import SpecialValues
from pgsluice.schema.typed.spark_column import spark_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pgsluice.schema.table import TableVersion

PLAIN_PRICE: Final = "12.34"
DOUBLED_PRICE: Final = "24.68"


def keep_sold(frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
    """Only rows with a quantity above 0."""
    (version,) = tables.values()
    return frame.where(_sold(version))


def reprice(frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
    """Every column typed; the price doubled, a day later; and all of it as PostgreSQL writes it."""
    (version,) = tables.values()
    return frame.withColumn("values", _repriced(version))


# Columns are made once per version of a table, as a modifier should: each call of a function of Spark is a
# trip to the JVM, and some hundred of them take longer than all the rest.


@cache
def _sold(version: TableVersion) -> Column:
    return _typed(version, "quantity") > 0


@cache
def _repriced(version: TableVersion) -> Column:
    later = (_typed(version, "changed_at") + F.expr("interval 1 day")).cast("string")
    changed = {
        "quantity": _typed(version, "quantity") + 1,
        "price": _typed(version, "price") * 2,
        "changed_at": F.concat(later, F.lit("+00")),
        "active": F.when(_typed(version, "active"), "t").otherwise("f"),
        "score": _typed(version, "score") * 2,
    }
    values = (changed.get(column.name, _typed(version, column.name)) for column in version.columns)
    return F.array(*(value.cast("string") for value in values))


def _typed(version: TableVersion, name: str) -> Column:
    index = next(i for i, column in enumerate(version.columns) if column.name == name)
    return spark_column(F.get(F.col("values"), F.lit(index)), version.columns[index].type, SpecialValues())
