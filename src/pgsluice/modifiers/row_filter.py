"""
Which rows go on: by a condition over the columns of a table, and by operation.

The condition is asked of the row before and of the row after an UPDATE. A row that comes to fulfil it is
inserted in the target, and one that no longer does is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from pgsluice.changelog.envelope import DELETE, INSERT, SNAPSHOT, SPARK_ENVELOPE, TRUNCATE, UPDATE
from pgsluice.errors import ConfigError
from pgsluice.modifiers.columns.choice import ColumnList  # noqa: TC001 - pydantic reads annotations
from pgsluice.modifiers.expressions import Row, RowColumns, parse
from pgsluice.modifiers.lineage import Lineage, said_of
from pgsluice.modifiers.remembered import Remembered
from pgsluice.schema.table_facts import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.table_facts import TableFacts

Operation = Literal["insert", "update", "delete", "truncate"]

_CODES: Final[Mapping[Operation, str]] = {
    "insert": INSERT,
    "update": UPDATE,
    "delete": DELETE,
    "truncate": TRUNCATE,
}
_IS, _WAS = "__is", "__was"
_CONDITION: Final = "the condition"
_ROWS: Final[tuple[Row, ...]] = ("values", "old")


class TableFilter(BaseModel):
    """Which rows of a table go on, and which of its columns."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    where: str | None = None
    """A condition in Spark SQL over the table's columns, such as country = 'DE' and total > 10."""

    operations: tuple[Operation, ...] = tuple(_CODES)
    """What goes on; rows of the first copy always do."""

    columns: ColumnList | None = None
    """Which columns go on: include: [id, name], or exclude: [notes]. The others never leave."""

    @property
    def chooses_rows(self) -> bool:
        """Whether it says something of rows."""
        return self.where is not None or set(self.operations) != set(_CODES)

    @model_validator(mode="after")
    def _says_something(self) -> TableFilter:
        if self.where is not None and not self.where.strip():
            raise ValueError("where is empty")
        return self


@dataclass(frozen=True, slots=True)
class _Columns:
    """Expressions for some table versions, made once."""

    typed: dict[str, Column]  # what conditions name
    answers: dict[str, Column]  # whether a row fulfils them, and did before
    kept: Column
    changed: dict[str, Column]


class RowFilter:
    """The modifier that conditions make."""

    def __init__(self, filters: Mapping[TableName, TableFilter], lineage: Lineage | None = None) -> None:
        self._filters = dict(filters)
        self.lineage = lineage or Lineage()
        self._tables: dict[int, TableFilter] = {}  # by number: a table keeps its filter when it is renamed
        self._made = Remembered(self.touches, self._columns)

    def touches(self, version: TableVersion) -> bool:
        """Whether a table has a condition."""
        return self._filter_of(version) is not None

    def passes_over_operations(self, version: TableVersion) -> bool:
        """Whether some operations on a table do not go on, whatever its rows are."""
        filter_ = self._filter_of(version)
        return filter_ is not None and set(_CODES) != {*filter_.operations}

    def _filter_of(self, version: TableVersion) -> TableFilter | None:
        self.lineage.learn(version)
        self.lineage.keep()
        name = version.schema, version.name
        return said_of(version.relid, name, self._filters, self._tables, self.lineage)

    def __call__(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The rows that go on, as what they are to the target."""
        made, names = self._made.of(frame, tables), frame.columns
        if made is None:
            return frame
        answered = frame.withColumns(made.typed).withColumns(made.answers)
        return answered.where(made.kept).withColumns(made.changed).select(*names)

    def _columns(self, spark: SparkSession, touched: Sequence[TableVersion]) -> _Columns:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        typed: dict[str, Column] = {}
        after, before = F.lit(True), F.lit(True)
        for version in touched:
            filter_ = self._filter_of(version)
            if filter_ is None or filter_.where is None:
                continue
            where = filter_.where
            is_, was = (
                F.expr(RowColumns(spark, version, row, typed).bind(where, _CONDITION)) for row in _ROWS
            )
            own = F.col("relation") == version.id
            after, before = F.when(own, is_).otherwise(after), F.when(own, was).otherwise(before)
        op, is_now, was_before = F.col("op"), F.col(_IS), F.col(_WAS)
        comes, goes = (op == UPDATE) & is_now & ~was_before, (op == UPDATE) & ~is_now & was_before
        fulfilled = (
            F.when(op.isin(INSERT, SNAPSHOT), is_now)
            .when(op == DELETE, was_before)
            .when(op == UPDATE, is_now | was_before)
            .otherwise(True)
        )
        now = F.when(comes, INSERT).when(goes, DELETE).otherwise(op)
        return _Columns(
            typed,
            {_IS: F.coalesce(after, F.lit(False)), _WAS: F.coalesce(before, F.lit(False))},
            fulfilled & self._is_allowed(touched, now),
            {
                "values": F.when(comes, _whole()).when(~goes, F.col("values")),
                "old": F.when(~comes, F.col("old")),
                "unchanged": F.when(~comes & ~goes, F.col("unchanged")),
                "op": now,
            },
        )

    def _is_allowed(self, touched: Sequence[TableVersion], op: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        def is_left_out(version: TableVersion) -> Column:
            filter_ = self._filter_of(version)
            assert filter_ is not None
            allowed = filter_.operations
            codes = [code for operation, code in _CODES.items() if operation not in allowed]
            return (F.col("relation") == version.id) & op.isin(*codes)

        return ~reduce(lambda one, other: one | other, map(is_left_out, touched), F.lit(False))


def _whole() -> Column:
    """The new values, with the old ones where they did not change and were not sent."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    values, old, unchanged = F.col("values"), F.col("old"), F.col("unchanged")
    filled = F.transform(
        values, lambda value, i: F.when(F.array_contains(unchanged, i), F.get(old, i)).otherwise(value)
    )
    return F.when(F.size(unchanged) > 0, filled).otherwise(values)


def _what(version: TableVersion) -> str:
    return f"{_CONDITION} of {version.qualified}"


def filter_problems(
    spark: Callable[[], SparkSession], filters: Mapping[TableName, TableFilter], tables: Sequence[TableFacts]
) -> Iterator[str]:
    """What is wrong with conditions, by the catalog; with those of a partitioned table, by its partitions."""
    facts = {(table.schema, table.name): table for table in tables}
    for name in filters:
        if name not in facts:
            yield f"{'.'.join(name)} has a filter, and no such table is replicated"
    for table in tables:
        names = (table.schema, table.name), *((parent.schema, parent.name) for parent in table.parents)
        filter_ = next((filters[each] for each in names if each in filters), None)
        if filter_ is not None and filter_.where is not None and not table.is_partitioned:
            yield from _problems_of(spark(), filter_.where, table)


def _problems_of(spark: SparkSession, where: str, table: TableFacts) -> Iterator[str]:
    from pyspark.errors import AnalysisException

    version = version_of(table)
    try:
        asked = parse(spark, where, {column.name for column in version.columns}, _what(version))
        empty = spark.createDataFrame([], SPARK_ENVELOPE)
        _ = RowFilter({(table.schema, table.name): TableFilter(where=where)})(empty, {1: version}).schema
    except ConfigError as exc:
        yield str(exc)
        return
    except AnalysisException as exc:
        yield f"{_what(version)} does not fit the table: {exc.getCondition()}"
        return
    beyond = sorted(asked.columns - table.key) if table.identity != "f" else []
    if beyond:
        yield (
            f"{_what(version)} names {', '.join(beyond)}, whose old values are not in the stream: set "
            "REPLICA IDENTITY FULL for the table, or name columns of its key alone"
        )
