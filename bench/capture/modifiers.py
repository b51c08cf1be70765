"""The chain of figure 5: a filter over a typed column, and a projection of typed columns."""

from __future__ import annotations

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
    return frame.where(_typed(tables, "quantity") > 0)


def reprice(frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
    """Every column typed; the price doubled, a day later; and all of it as PostgreSQL writes it."""
    changed = {
        "quantity": _typed(tables, "quantity") + 1,
        "price": _typed(tables, "price") * 2,
        "changed_at": F.concat((_typed(tables, "changed_at") + F.expr("interval 1 day")).cast("string"), F.lit("+00")),
        "active": F.when(_typed(tables, "active"), "t").otherwise("f"),
        "score": _typed(tables, "score") * 2,
    }
    (version,) = tables.values()
    values = [
        changed.get(column.name, _typed(tables, column.name)).cast("string") for column in version.columns
    ]
    return frame.withColumn("values", F.array(*values))


def _typed(tables: Mapping[int, TableVersion], name: str) -> Column:
    (version,) = tables.values()
    index = next(i for i, column in enumerate(version.columns) if column.name == name)
    return spark_column(F.get(F.col("values"), F.lit(index)), version.columns[index].type, SpecialValues())
