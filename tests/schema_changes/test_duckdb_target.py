"""Every form of a schema change, as far as a DuckDB file has what it changes: its rows are the source's."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from psycopg import sql
from psycopg.types.string import TextLoader

from pgsluice import DuckDBSink, Pipeline, PostgresSource
from tests.fix_pg import Database, create_database, drop_database
from tests.schema_changes.forms import FORMS, Form

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres


@pytest.fixture(scope="module")
def changed(
    pg18: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, Path]]:
    """All forms, made on a source while its pipeline was down, and applied in one run."""
    source, place = create_database(pg18), tmp_path_factory.mktemp("state")
    file = place / "target.duckdb"

    def run() -> None:
        where = PostgresSource(source.url, keyless="full", init=True)
        assert Pipeline(where, DuckDBSink(file), state_dir=place).run(once=True)

    for form in FORMS:
        source.run(f"CREATE SCHEMA {form.schema}", *form.before)
    run()
    for form in FORMS:
        for query in form.queries:
            source.run(query)
    run()
    yield source, file
    drop_database(source)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form(changed: tuple[Database, Path], form: Form) -> None:
    """The same tables, columns in any order, and rows."""
    source, file = changed
    tables = source.rows(
        "SELECT n.nspname, c.relname, array_agg(a.attname ORDER BY a.attname) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''"
        f" AND n.nspname LIKE '{form.schema}%' GROUP BY 1, 2"
    )
    compared = 0
    with duckdb.connect(str(file), read_only=True) as target:
        target.execute("SET TimeZone = 'UTC'")
        there = target.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name LIKE ? ORDER BY ALL",
            [f"{form.schema}%"],
        ).fetchall()
        assert there == sorted((schema, name) for schema, name, _ in tables)
        for schema, name, columns in tables:
            wanted = rows_of(source, schema, name, columns)
            quoted = ", ".join('"' + each.replace('"', '""') + '"' for each in columns)
            found = target.execute(f'SELECT {quoted} FROM "{schema}"."{name.replace(chr(34), chr(34) * 2)}"')
            assert sorted(map(comparable, found.fetchall())) == wanted, name
            compared += len(wanted)
    print(f"compared {compared} rows in {len(tables)} tables")


def rows_of(source: Database, schema: str, name: str, columns: list[str]) -> list[tuple[str, ...]]:
    """The rows of a table of the source, sorted."""
    with source.connect() as conn:
        conn.execute("SET TimeZone = 'UTC'")
        for ranges in ("int4range", "tsrange"):  # DuckDB has them as texts
            conn.adapters.register_loader(ranges, TextLoader)
        query = sql.SQL("SELECT {} FROM ONLY {}").format(
            sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(schema, name)
        )
        return sorted(map(comparable, conn.execute(query).fetchall()))


def comparable(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Values as text that both sides write alike."""
    return tuple(_text(value) for value in row)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, list):
        return "{" + ",".join(map(_text, value)) + "}"
    return str(value)
