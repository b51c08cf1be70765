"""What Spark says of the expressions in rules, before any row has come: by analysing them over no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.envelope import SPARK_ENVELOPE
from pgsluice.errors import ConfigError
from pgsluice.modifiers.expressions import RowColumns, nodes_of, parse
from pgsluice.modifiers.transformer.check import RuleProblem, key_problems
from pgsluice.modifiers.transforms.base import Cell
from pgsluice.modifiers.transforms.expression import Sql
from pgsluice.schema.table_facts import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import Column, SparkSession

    from pgsluice.modifiers.transformer.rules import ColumnRule, Transformations
    from pgsluice.schema.table_facts import ColumnFacts, TableFacts

_WHAT: Final = "the expression"
_MADE: Final = "__made"
# Spark takes these for constants, as they are within one query.
_OF_NOW: Final = ("CurrentTimestamp", "CurrentDate", "CurrentTime", "Now", "LocalTimestamp")
_REMEDY: Final = "Mend the expression: Spark SQL over the columns of the row"


@dataclass(frozen=True, slots=True)
class Analysed:
    """What is known of the expressions of one table."""

    table: TableFacts
    problems: tuple[RuleProblem, ...]
    random: frozenset[str]  # columns whose expressions go by chance, or by the clock


def analyse(
    spark: Callable[[], SparkSession], rules: Transformations, tables: Iterable[TableFacts]
) -> Iterator[Analysed]:
    """Look at every expression; Spark is asked for only when there is one."""
    facts = {(table.schema, table.name): table for table in tables}
    for own in rules.table_transformers:
        table = facts.get((own.schema_, own.table))
        if table is None:
            continue
        columns = {column.name: column for column in table.columns}
        found = {
            name: (rule, columns[name])
            for name, rule in own.column_transformers.items()
            if isinstance(rule.transform, Sql) and name in columns
        }
        if found:
            yield _of_table(spark(), table, found)


def _of_table(
    spark: SparkSession, table: TableFacts, rules: dict[str, tuple[ColumnRule, ColumnFacts]]
) -> Analysed:
    problems: list[RuleProblem] = []
    random: set[str] = set()
    for name, (rule, column) in rules.items():
        transform = rule.transform
        assert isinstance(transform, Sql)
        problem, is_random = _of_expression(spark, table, column, transform)
        if problem is not None:
            problems.append(RuleProblem(table.qualified, name, problem, _REMEDY))
            continue
        if is_random:
            random.add(name)
        problems += [
            RuleProblem(table.qualified, name, *each)
            for each in _of_key(spark, table, column, rule, is_random=is_random)
        ]
    return Analysed(table, tuple(problems), frozenset(random))


def _of_expression(
    spark: SparkSession, table: TableFacts, column: ColumnFacts, transform: Sql
) -> tuple[str | None, bool]:
    """What is wrong with it, and whether it goes by chance."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    version, typed = version_of(table), dict[str, "Column"]()
    row = RowColumns(spark, version, "old", typed)
    cell = Cell("''", column.type, b"", {}, lambda text: row.bind(text, _WHAT))
    try:
        made = F.expr(transform.sql(cell))
        empty = spark.createDataFrame([], SPARK_ENVELOPE)
        frame = empty.withColumns(typed).withColumn(_MADE, made)
    except ConfigError as exc:
        return exc.message, False
    except AnalysisException as exc:
        return f"{_WHAT} of {table.qualified} does not fit the table: {exc.getCondition()}", False
    listed = frame._jdf.queryExecution().analyzed().expressions()  # noqa: SLF001 - the only way to the analysis
    last = listed.apply(listed.size() - 1)
    by_the_clock = any(node.getClass().getSimpleName() in _OF_NOW for node in nodes_of(last))
    return None, by_the_clock or not last.deterministic()


def _of_key(
    spark: SparkSession, table: TableFacts, column: ColumnFacts, rule: ColumnRule, *, is_random: bool
) -> Iterator[tuple[str, str]]:
    transform = rule.transform
    assert isinstance(transform, Sql)
    if is_random:
        yield from key_problems(rule, column, table, is_random=True)
    names = {each.name for each in table.columns}
    beyond = sorted(parse(spark, transform.expression, names, _WHAT).columns - table.key)
    if column.name in table.key and beyond:
        yield (
            f"{_WHAT} names {', '.join(beyond)}, and a DELETE has nothing beside the key",
            "Name columns of the key alone, or set REPLICA IDENTITY FULL",
        )
