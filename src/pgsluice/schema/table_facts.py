"""What the catalog says of tables before any row of them has come: types, NULLs, keys, partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.rows import namedtuple_row

from pgsluice.schema.catalog import describe_types, parents_of
from pgsluice.schema.pgtypes import is_built_in, resolve, with_typmod
from pgsluice.schema.table import Column, TableVersion

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from pgsluice.schema.table import Identity, Parent, PgType

_COLUMNS = """
SELECT a.attrelid::int8 AS relid, n.nspname AS schema, c.relname AS name, c.relreplident::text AS identity,
       a.attname AS "column", a.atttypid::int8 AS type, a.atttypmod AS typmod, a.attnotnull AS not_null,
       a.attnum AS number, a.attgenerated <> '' AS generated,
       c.relispartition OR c.relkind = 'p' OR c.reloftype <> 0 OR EXISTS (
           SELECT FROM pg_catalog.pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)) AS family,
       ARRAY(SELECT f.attname::text FROM pg_catalog.pg_attrdef g
               JOIN pg_catalog.pg_depend d ON d.classid = g.tableoid AND d.objid = g.oid
                AND d.refclassid = c.tableoid AND d.refobjid = c.oid AND d.refobjsubid <> a.attnum
               JOIN pg_catalog.pg_attribute f ON f.attrelid = c.oid AND f.attnum = d.refobjsubid
              WHERE g.adrelid = c.oid AND g.adnum = a.attnum AND a.attgenerated <> '') AS made_from,
       (SELECT pg_catalog.pg_get_expr(g.adbin, g.adrelid) FROM pg_catalog.pg_attrdef g
         WHERE g.adrelid = c.oid AND g.adnum = a.attnum AND a.attgenerated <> '') AS made_by,
       c.relkind = 'p' AS partitioned,
       -- The server keeps a column that rows are told to partitions by as a part of its table.
       c.relkind = 'p' AND EXISTS (
           SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = c.tableoid AND d.objid = c.oid AND d.objsubid = a.attnum
              AND d.refclassid = c.tableoid AND d.refobjid = c.oid AND d.refobjsubid = 0
              AND d.deptype = 'i') AS places_rows
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE a.attrelid = ANY (%s::pg_catalog.oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
# An index over an expression guards the columns in it, too.
_UNIQUE = """
SELECT i.indrelid::int8 AS relid, i.indisreplident OR i.indisprimary AND c.relreplident = 'd' AS is_identity,
       array_agg(DISTINCT a.attname::text ORDER BY a.attname::text) AS columns
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  AND d.objid = i.indexrelid AND d.refobjid = i.indrelid AND d.refobjsubid > 0
  AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = d.refobjsubid
WHERE i.indisunique AND i.indrelid = ANY (%s::pg_catalog.oid[])
GROUP BY i.indexrelid, i.indrelid, 2
UNION ALL
-- What belongs to a constraint depends on it, and only the constraint on the columns.
SELECT i.indrelid::int8, i.indisreplident OR i.indisprimary AND c.relreplident = 'd',
       array_agg(DISTINCT a.attname::text ORDER BY a.attname::text)
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_constraint o ON o.conindid = i.indexrelid AND o.conrelid = i.indrelid AND o.contype <> 'f'
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (o.conkey)
WHERE i.indisunique AND i.indrelid = ANY (%s::pg_catalog.oid[])
GROUP BY i.indexrelid, i.indrelid, 2
"""

# Each part of a key by itself. What partitions have of their root's keys is not told again.
_REFERENCES = """
SELECT r.conrelid::int8 AS relid, a.attname AS "column", n.nspname AS schema, c.relname AS name,
       f.attname AS referred
FROM pg_catalog.pg_constraint r
CROSS JOIN LATERAL unnest(r.conkey, r.confkey) AS part(own, other)
JOIN pg_catalog.pg_attribute a ON a.attrelid = r.conrelid AND a.attnum = part.own
JOIN pg_catalog.pg_attribute f ON f.attrelid = r.confrelid AND f.attnum = part.other
JOIN pg_catalog.pg_class c ON c.oid = r.confrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE r.contype = 'f' AND r.conparentid = 0 AND r.conrelid = ANY (%s::pg_catalog.oid[])
ORDER BY r.conrelid, r.oid, part.own
"""


class Reference(NamedTuple):
    """A column of a foreign key, and the column that it points at."""

    column: str
    schema: str
    table: str
    referred: str


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column as the catalog has it."""

    name: str
    type: PgType
    not_null: bool
    number: int  # pg_attribute.attnum, which survives renames
    generated: bool
    made_from: frozenset[str]  # the columns that it is generated from
    made_by: str | None = None  # the expression that generates it
    places_rows: bool = False  # whether rows go to one partition or another by it


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table as the catalog has it."""

    relid: int
    schema: str
    name: str
    identity: Identity
    columns: tuple[ColumnFacts, ...]
    key: frozenset[str]  # columns by which UPDATE and DELETE find their row; with FULL none
    unique: tuple[tuple[str, ...], ...]  # the columns of each index that allows no duplicates
    has_family: bool  # whether its columns are also those of others: partitions, heirs, a type
    is_partitioned: bool = False  # has no rows of its own
    parents: tuple[Parent, ...] = ()  # of a partition: the nearest first
    references: tuple[Reference, ...] = ()

    @property
    def qualified(self) -> str:
        """``schema.name``, for people."""
        return f"{self.schema}.{self.name}"


def read_facts(conn: psycopg.Connection[Any], relids: Sequence[int]) -> list[TableFacts]:
    """The tables with these numbers, in their order; one without columns is left out."""
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: list[Any] = cursor.execute(_COLUMNS, (list(relids),)).fetchall()
        indexes: list[Any] = cursor.execute(_UNIQUE, (list(relids), list(relids))).fetchall()
        references: list[Any] = cursor.execute(_REFERENCES, (list(relids),)).fetchall()
    types = describe_types(conn, (row.type for row in rows))
    tables: dict[int, list[Any]] = {}
    for row in rows:
        tables.setdefault(row.relid, []).append(row)
    found = [_facts(tables[relid], indexes, types) for relid in relids if relid in tables]
    return [
        replace(
            table,
            parents=parents_of(conn, table.relid) if table.has_family else (),
            references=tuple(
                Reference(row.column, row.schema, row.name, row.referred)
                for row in references
                if row.relid == table.relid
            ),
        )
        for table in found
    ]


def read_facts_of_families(conn: psycopg.Connection[Any], relids: Sequence[int]) -> list[TableFacts]:
    """The same, and before them the partitioned tables that they are partitions of."""
    found = read_facts(conn, relids)
    above = dict.fromkeys(parent.relid for table in found for parent in reversed(table.parents))
    return [*read_facts(conn, [relid for relid in above if relid not in relids]), *found]


def version_of(facts: TableFacts) -> TableVersion:
    """A version with the number 1, as the stream would describe the table."""
    columns = tuple(
        Column(each.name, each.type, each.name in facts.key, each.number) for each in facts.columns
    )
    return TableVersion(
        1, facts.relid, facts.schema, facts.name, facts.identity, columns, parents=facts.parents
    )


def _facts(rows: Sequence[Any], indexes: Sequence[Any], types: dict[int, PgType]) -> TableFacts:
    first = rows[0]
    own = [index for index in indexes if index.relid == first.relid]
    key = frozenset(name for index in own if index.is_identity for name in index.columns)
    columns = tuple(
        ColumnFacts(
            row.column,
            with_typmod(resolve(row.type) if is_built_in(row.type) else types[row.type], row.typmod),
            row.not_null,
            row.number,
            row.generated,
            frozenset(row.made_from),
            row.made_by,
            row.places_rows,
        )
        for row in rows
    )
    return TableFacts(
        first.relid,
        first.schema,
        first.name,
        first.identity,
        columns,
        key if first.identity != "f" else frozenset(),
        tuple(dict.fromkeys(tuple(index.columns) for index in own)),
        first.family,
        first.partitioned,
    )
