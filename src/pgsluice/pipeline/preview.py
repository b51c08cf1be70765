"""Rows of the source before and after the rules, for people to look at before a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import sql

from pgsluice.changelog.envelope import ENVELOPE, SNAPSHOT
from pgsluice.modifiers.transformer.apply_arrow import ArrowTransformer
from pgsluice.pipeline.modify import build_chain, know_source
from pgsluice.schema.table_facts import read_facts_of_families, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from pgsluice.pipeline.config import Config
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table_facts import TableFacts
    from pgsluice.source.postgres import PostgresSource

Row = list[str | None]


@dataclass(frozen=True, slots=True)
class Preview:
    """Some rows of one table."""

    table: str
    columns: tuple[str, ...]
    before: list[Row]
    after: list[Row]

    def lines(self) -> Iterator[tuple[int, str, str, str]]:
        """One line for each value that is changed: number of the row, column, before, after."""
        for number, (old, new) in enumerate(zip(self.before, self.after, strict=True), start=1):
            for name, before, after in zip(self.columns, old, new, strict=True):
                if before != after:
                    yield number, name, _shown(before), _shown(after)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: a pair for each row."""
        rows = [
            {
                "before": dict(zip(self.columns, old, strict=True)),
                "after": dict(zip(self.columns, new, strict=True)),
            }
            for old, new in zip(self.before, self.after, strict=True)
        ]
        return {"table": self.table, "rows": rows}


def previews(
    config: Config, source: PostgresSource, rows: int, spark: Callable[[], SparkSession]
) -> Iterator[Preview]:
    """The first rows of each table that has rules."""
    ruled = {(each.schema_, each.table) for each in config.modifiers.transformations.table_transformers}
    chain = build_chain(config, keeps=False).without_injector()
    with source.catalog() as conn:
        relids = [table.relid for table in source.tables_of(conn, config.name)]
        tables = read_facts_of_families(conn, relids)
        know_source(chain, tables)
        changed = {relid for each in chain.of_kind(ArrowTransformer) for relid in each.reach.changed(tables)}
        for facts in tables:
            has_rules = (facts.schema, facts.name) in ruled or facts.relid in changed
            if facts.is_partitioned or not has_rules:
                continue
            before = _rows(conn, facts, rows)
            version = version_of(facts)
            after = chain.of({1: version}).apply_local(_entries(facts, before), spark)
            names = tuple(column.name for column in chain.narrowed(version).columns)
            places = [i for i, column in enumerate(facts.columns) if column.name in names]
            shown = [[row[place] for place in places] for row in before]
            yield Preview(facts.qualified, names, shown, after["values"].to_pylist())


def _shown(value: str | None) -> str:
    return "NULL" if value is None else value


def _rows(conn: Connection, facts: TableFacts, count: int) -> list[Row]:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in facts.columns)
    query = sql.SQL("COPY (SELECT {} FROM {} LIMIT {}) TO STDOUT").format(
        columns, sql.Identifier(facts.schema, facts.name), sql.Literal(count)
    )
    with conn.cursor().copy(query) as copy:
        return [list(row) for row in copy.rows()]


def _entries(facts: TableFacts, rows: list[Row]) -> pa.Table:
    count = len(rows)
    given = {
        "commit_lsn": [0] * count,
        "seq": list(range(1, count + 1)),
        "op": [SNAPSHOT] * count,
        "relation": [1] * count,
        "schema": [facts.schema] * count,
        "table": [facts.name] * count,
        "values": rows,
    }
    return pa.table(
        {field.name: pa.array(given.get(field.name, [None] * count), field.type) for field in ENVELOPE},
        schema=ENVELOPE,
    )
