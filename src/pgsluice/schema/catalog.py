"""
What the source's catalog says beyond the stream: the types that users made, numbers of columns, keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from psycopg.rows import class_row, tuple_row

from pgsluice.schema.pgtypes import is_built_in, resolve, with_typmod
from pgsluice.schema.table import Parent, PgType, TableVersion, TypeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psycopg

_KINDS: Mapping[str, TypeKind] = {
    "b": "base",
    "c": "composite",
    "d": "domain",
    "e": "enum",
    "m": "range",  # a multirange
    "r": "range",
}

# The types asked for, and what they are made of: elements of arrays, bases of domains. An array whose
# elements are not parted by commas is given without its element, as nothing here can take it apart.
_TYPES = """
WITH RECURSIVE known AS (
    SELECT oid FROM pg_catalog.pg_type WHERE oid = ANY (%s::pg_catalog.oid[])
    UNION
    SELECT part.oid
    FROM known
    JOIN pg_catalog.pg_type whole ON whole.oid = known.oid
    JOIN pg_catalog.pg_type part ON part.oid IN (whole.typbasetype, whole.typelem)
)
SELECT t.oid::int8 AS oid, t.typname AS name, n.nspname AS schema, t.typtype::text AS kind,
       t.typbasetype::int8 AS base, t.typtypmod AS typmod, e.oid::int8 AS element,
       coalesce(e.typdelim = ',', false) AS by_commas
FROM known
JOIN pg_catalog.pg_type t ON t.oid = known.oid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_type e ON e.typarray = t.oid
"""

_NUMBERS = """
SELECT attname, attnum::int4
FROM pg_catalog.pg_attribute
WHERE attrelid = %s::pg_catalog.oid AND attnum > 0 AND NOT attisdropped
"""
# The primary key, else the shortest unique index that holds for all rows and has no NULL in it.
_NAMING = """
SELECT a.attname
FROM (
    SELECT i.indrelid, i.indkey::int2[] AS key, i.indnkeyatts
    FROM pg_catalog.pg_index i
    WHERE i.indrelid = %s::pg_catalog.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
      AND i.indexprs IS NULL AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_attribute n
          WHERE n.attrelid = i.indrelid AND NOT n.attnotnull
            AND n.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
    ORDER BY NOT i.indisprimary, i.indnkeyatts, i.indexrelid
    LIMIT 1
) best
CROSS JOIN LATERAL unnest(best.key) WITH ORDINALITY AS part(attnum, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = best.indrelid AND a.attnum = part.attnum
WHERE part.place <= best.indnkeyatts
ORDER BY part.place
"""


_PARENTS = """
SELECT c.oid::int8, n.nspname, c.relname
FROM pg_catalog.pg_partition_ancestors(%s::pg_catalog.oid) WITH ORDINALITY AS above(relid, place)
JOIN pg_catalog.pg_class c ON c.oid = above.relid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE above.place > 1
ORDER BY above.place
"""

# Tables with columns of some types, or of types that are made of these: arrays, domains, composites.
_TABLES_WITH = """
WITH RECURSIVE made_of AS (
    SELECT unnest(%s::pg_catalog.oid[]) AS oid
    UNION
    SELECT whole.oid
    FROM made_of
    JOIN pg_catalog.pg_type part ON part.oid = made_of.oid
    JOIN pg_catalog.pg_type whole ON whole.oid = part.typarray OR whole.typbasetype = part.oid
      OR whole.typtype = 'c' AND EXISTS (
          SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = whole.typrelid AND a.atttypid = part.oid)
)
SELECT DISTINCT a.attrelid::int8
FROM made_of
JOIN pg_catalog.pg_attribute a ON a.atttypid = made_of.oid
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
WHERE c.relkind = 'r' AND NOT a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of pg_type."""

    oid: int
    name: str
    schema: str
    kind: str  # pg_type.typtype
    base: int  # of a domain, else 0
    typmod: int  # of a domain
    element: int | None  # of a true array
    by_commas: bool


def describe_types(conn: psycopg.Connection[Any], oids: Iterable[int]) -> dict[int, PgType]:
    """The types with these numbers that are not built in; a number that nobody has is left out."""
    wanted = [oid for oid in dict.fromkeys(oids) if not is_built_in(oid)]
    if not wanted:
        return {}
    with conn.cursor(row_factory=class_row(_Row)) as cursor:
        rows = {row.oid: row for row in cursor.execute(_TYPES, (wanted,))}
    return {oid: _build(oid, rows) for oid in wanted if oid in rows}


def tables_with(conn: psycopg.Connection[Any], types: Iterable[int]) -> set[int]:
    """The tables that have values of some types."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        return {relid for (relid,) in cursor.execute(_TABLES_WITH, ([*types],))}


def completed(version: TableVersion, conn: psycopg.Connection[Any]) -> TableVersion:
    """A version of the stream with what only the catalog knows: numbers of columns, what names a row, …"""
    with conn.cursor(row_factory=tuple_row) as cursor:
        numbers: dict[str, int] = dict(cursor.execute(_NUMBERS, (version.relid,)).fetchall())
        naming = tuple(name for (name,) in cursor.execute(_NAMING, (version.relid,)))
    parents = parents_of(conn, version.relid)
    columns = tuple(replace(column, number=numbers.get(column.name, 0)) for column in version.columns)
    if not naming and version.identity == "f":
        naming = tuple(column.name for column in columns)
    return replace(version, columns=columns, naming=naming, parents=parents)


def parents_of(conn: psycopg.Connection[Any], relid: int) -> tuple[Parent, ...]:
    """What a table is a partition of, the nearest first."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        return tuple(Parent(*row) for row in cursor.execute(_PARENTS, (relid,)))


def _build(oid: int, rows: Mapping[int, _Row]) -> PgType:
    if is_built_in(oid):
        return resolve(oid)
    row = rows[oid]
    if row.element is not None:
        element = _build(row.element, rows) if row.by_commas else None
        return PgType(oid, row.name, row.schema, kind="array", element=element)
    if row.kind == "d":
        base = with_typmod(_build(row.base, rows), row.typmod)
        return PgType(oid, row.name, row.schema, kind="domain", base=base)
    return PgType(oid, row.name, row.schema, kind=_KINDS.get(row.kind, "unknown"))
