"""What source and target hold, row by row and by the text of every column."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from tests.fix_pg import Database

_SETTINGS = (
    "DateStyle = 'ISO, YMD'",
    "IntervalStyle = 'postgres'",
    "TimeZone = 'UTC'",
    "extra_float_digits = 3",
    "search_path = ''",
)

_TABLES = """
SELECT n.nspname, c.relname
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pgsluice', 'pg_toast')
 ORDER BY 1, 2"""

_SHOWN = 300  # characters of a row in a message


def compare(source: Database, target: Database) -> int:
    """Compare every table that has rows of its own, partitions one by one; gives how many rows."""
    compared = 0
    with pinned(source) as here, pinned(target) as there:
        tables = tables_of(here)
        assert tables_of(there) == tables
        for schema, name in tables:
            wanted, found = rows(here, schema, name), rows(there, schema, name)
            require_equal(f"{schema}.{name}", wanted, found)
            compared += wanted.total()
    return compared


def pinned(database: Database) -> psycopg.Connection:
    """A connection under which a value has the same text on every server."""
    conn = database.connect()
    for setting in _SETTINGS:
        conn.execute(f"SET {setting}")
    return conn


def tables_of(conn: psycopg.Connection) -> list[tuple[str, str]]:
    """Schema and name of every table that has rows of its own."""
    return conn.execute(_TABLES).fetchall()


def require_equal(table: str, wanted: Counter[Any], found: Counter[Any]) -> None:
    """Fail with the first rows that differ."""
    missing, extra = wanted - found, found - wanted
    shown = [
        f"{rows.total()} {what}, such as {min(map(repr, rows))[:_SHOWN]}"
        for what, rows in (("missing", missing), ("too many", extra))
        if rows
    ]
    assert not shown, f"{table}, {wanted.total()} rows in the source: {'; '.join(shown)}"


def rows(conn: psycopg.Connection, schema: str, name: str) -> Counter[bytes]:
    """The rows of a table as COPY prints them, and how often each is there."""
    table = sql.Identifier(schema, name)
    with conn.cursor().copy(sql.SQL("COPY (SELECT * FROM ONLY {}) TO STDOUT").format(table)) as copy:
        return Counter(b"".join(copy).split(b"\n")[:-1])
