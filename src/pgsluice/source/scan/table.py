"""What there is to read: a table's columns, and the heaps that its rows are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from pgsluice.errors import ConfigError, SourceError
from pgsluice.schema.catalog import describe_types
from pgsluice.schema.pgtypes import resolve
from pgsluice.source.snapshot.tables import Heap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import PgType


@dataclass(frozen=True, slots=True)
class ScannedColumn:
    """A column of the table."""

    name: str
    number: int  # pg_attribute.attnum
    type: PgType


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """A table, with generated columns as well."""

    relid: int
    schema: str
    name: str
    partitioned: bool
    columns: tuple[ScannedColumn, ...]

    @property
    def qualified(self) -> str:
        """``schema.name``, for people."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class ScannedHeap:
    """Rows of the table: the table itself, or a leaf partition."""

    heap: Heap
    numbers: dict[str, int]  # of the columns: those of a partition may differ from the table's


def describe(conn: Connection, table: tuple[str, str]) -> ScannedTable:
    """The table as the connection's transaction sees it."""
    schema, name = table
    row = conn.execute(_TABLE, (schema, name)).fetchone()
    if row is None:
        raise ConfigError(
            f"there is no table {schema}.{name}",
            remedy='Mend the option table; names with capitals or dots need double quotes: shop."Orders"',
            table=f"{schema}.{name}",
        )
    relid, kind = row
    if kind not in ("r", "p"):
        raise ConfigError(
            f"{schema}.{name} is no table but {_KINDS.get(kind, 'something else')}",
            remedy="Read the tables that it is made of",
            table=f"{schema}.{name}",
        )
    found = conn.execute(_COLUMNS, (relid,)).fetchall()
    types = describe_types(conn, [type_oid for _, _, type_oid, _ in found])
    columns = tuple(
        ScannedColumn(column, number, resolve(type_oid, typmod, types))
        for column, number, type_oid, typmod in found
    )
    return ScannedTable(relid, schema, name, kind == "p", columns)


def as_condition(text: str) -> sql.Composed:
    """A condition of the user's, as one part of ours."""
    return sql.SQL("({}\n)").format(sql.SQL(text))  # the line ends a comment


def require_condition(conn: Connection, table: ScannedTable, text: str) -> None:
    """Raise unless the server takes the text for one condition on the table's rows."""
    statement = sql.SQL("SELECT FROM {} WHERE {} LIMIT 0").format(
        sql.Identifier(table.schema, table.name), as_condition(text)
    )
    try:
        conn.execute(statement, prepare=True)  # which allows of one statement only
    except psycopg.ProgrammingError as exc:
        if isinstance(exc, psycopg.errors.InsufficientPrivilege):
            raise
        raise ConfigError(
            f"the option where is no condition on {table.qualified}: {exc.diag.message_primary}",
            remedy="Write it as in PostgreSQL after WHERE; functions and types of your own need their schema",
            table=table.qualified,
        ) from exc


def heaps_of(conn: Connection, table: ScannedTable, names: Sequence[str]) -> list[ScannedHeap]:
    """
    Where the table's rows are in the snapshot of the connection's transaction.

    Asked of the catalog's tables, not of its functions: these would answer by what was attached since.
    """
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: list[Any] = cursor.execute(_HEAPS, (table.relid,)).fetchall()
    foreign = [row for row in rows if row.kind == "f"]
    if foreign:
        raise SourceError(
            f"{foreign[0].schema}.{foreign[0].name}, a partition of {table.qualified}, is a foreign table: "
            "its rows have no place in a snapshot",
            remedy="Read the table without a snapshot, or its other partitions one by one",
            table=table.qualified,
        )
    leaves = [row for row in rows if row.kind == "r"]
    numbers: dict[int, dict[str, int]] = {row.oid: {} for row in leaves}
    for relid, name, number in conn.execute(_NUMBERS, ([row.oid for row in leaves], list(names))):
        numbers[relid][name] = number
    return [
        ScannedHeap(Heap(row.oid, row.schema, row.name, row.filenode, row.pages, row.bytes), numbers[row.oid])
        for row in leaves
    ]


_KINDS: Final = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "I": "an index",
    "c": "a type",
}

_TABLE: Final = """
SELECT c.oid::int8, c.relkind::text
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s"""

_COLUMNS: Final = """
SELECT attname, attnum, atttypid::int8, atttypmod FROM pg_catalog.pg_attribute
 WHERE attrelid = %s::pg_catalog.oid AND attnum > 0 AND NOT attisdropped
 ORDER BY attnum"""

# Children by plain inheritance are tables of their own; only partitions are parts of their parent.
_HEAPS: Final = """
WITH RECURSIVE tree AS (
    SELECT %s::pg_catalog.oid AS oid
    UNION
    SELECT i.inhrelid FROM tree
      JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid AND NOT i.inhdetachpending
      JOIN pg_catalog.pg_class part ON part.oid = i.inhrelid AND part.relispartition
)
SELECT c.oid::int8, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       c.relfilenode::int8 AS filenode,
       coalesce(pg_catalog.pg_relation_size(c.oid), 0) / current_setting('block_size')::int AS pages,
       coalesce(pg_catalog.pg_table_size(c.oid), 0) AS bytes
  FROM tree
  JOIN pg_catalog.pg_class c ON c.oid = tree.oid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 ORDER BY c.oid"""

_NUMBERS: Final = """
SELECT attrelid::int8, attname, attnum FROM pg_catalog.pg_attribute
 WHERE attrelid = ANY (%s::pg_catalog.oid[]) AND attname = ANY (%s::pg_catalog.text[]) AND attnum > 0"""
