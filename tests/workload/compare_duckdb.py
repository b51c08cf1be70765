"""What a DuckDB file holds, as PostgreSQL would print it, and whether that is what the source has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
from psycopg import sql

from tests.workload.compare import pinned, require_equal, tables_of
from tests.workload.values import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import psycopg

    from tests.fix_pg import Database

_COLUMNS = """
SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = ? AND table_name = ?
ORDER BY column_index"""

_WITH_ERA = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_FLOATS = ("FLOAT", "DOUBLE")


def compare_duckdb(source: Database, file: Path) -> int:
    """Compare every table that the file has a row of; gives how many rows."""
    compared = 0
    with pinned(source) as here, duckdb.connect(str(file), read_only=True) as there:
        there.execute("SET TimeZone = 'UTC'")
        for schema, name in tables_of(here):
            columns = there.execute(_COLUMNS, [schema, name]).fetchall()
            wanted, found = _source_rows(here, schema, name, columns), _rows(there, schema, name, columns)
            require_equal(f"{schema}.{name} in DuckDB", wanted, found)
            compared += wanted.total()
    return compared


def _source_rows(
    conn: psycopg.Connection, schema: str, name: str, columns: Sequence[tuple[str, str]]
) -> Counter[Any]:
    """The rows of the source, without what the stream does not have: columns that the server generates."""
    names = sql.SQL(", ").join(sql.Identifier(column) for column, _ in columns)
    query = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT").format(names, sql.Identifier(schema, name))
    floats = [place for place, (_, kind) in enumerate(columns) if kind in _FLOATS]
    with conn.cursor().copy(query) as copy:
        return Counter(_with_floats(row, floats) for row in copy.rows())


def _rows(
    conn: duckdb.DuckDBPyConnection, schema: str, name: str, columns: Sequence[tuple[str, str]]
) -> Counter[Any]:
    if not columns:
        return Counter()  # no row came, so no table was made
    values = ", ".join(_text(quoted(column), kind) for column, kind in columns)
    floats = [place for place, (_, kind) in enumerate(columns) if kind in _FLOATS]
    found = conn.execute(f"SELECT {values} FROM {quoted(schema)}.{quoted(name)}").fetchall()
    return Counter(_with_floats(row, floats) for row in found)


def _text(column: str, kind: str) -> str:
    """A value as PostgreSQL prints it."""
    if kind == "BOOLEAN":
        return f"CASE {column} WHEN true THEN 't' WHEN false THEN 'f' END"
    if kind == "BLOB":
        return f"'\\x' || lower(hex({column}))"
    text = f"CAST({column} AS VARCHAR)"
    if kind.startswith("DECIMAL"):  # one without digits before the point prints none
        return rf"regexp_replace({text}, '^(-?)\.', '\10.')"
    return rf"regexp_replace({text}, '^(.*) \(BC\)(.*)$', '\1\2 BC')" if kind in _WITH_ERA else text


def _with_floats(row: Sequence[str | None], floats: Sequence[int]) -> tuple[str | None, ...]:
    """The same number may be written in two ways: 1e+23 and 1e23."""
    cells = list(row)
    for place in floats:
        cells[place] = None if cells[place] is None else repr(float(str(cells[place])))
    return tuple(cells)
