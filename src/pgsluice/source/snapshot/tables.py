"""What there is to copy: the tables of a publication, described as the stream will describe them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import namedtuple_row

from pgsluice.source.pgoutput.messages import Relation, RelationColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgsluice.changelog.position import Lsn
    from pgsluice.postgres.session import Connection


@dataclass(frozen=True, slots=True)
class Heap:
    """A table that has rows of its own: a plain one, or a leaf partition."""

    relid: int
    schema: str
    name: str
    filenode: int  # as the snapshot sees it: another one later means that rows have moved
    pages: int
    bytes: int  # with what lies beside the pages because it is large


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table of the stream, and where its rows are."""

    relation: Relation  # as the stream names it
    heaps: tuple[Heap, ...]
    row_filter: str | None  # of the publication
    joined: Lsn | None = None  # where it came into the stream after the pipeline was made

    @property
    def qualified(self) -> str:
        """``schema.name``, for people."""
        return f"{self.relation.schema}.{self.relation.name}"

    @property
    def bytes(self) -> int:
        """How large its rows are on the source's disk."""
        return sum(heap.bytes for heap in self.heaps)


def published_tables(
    conn: Connection, publication: str, joined: Mapping[int, Lsn] | None = None
) -> list[CopiedTable]:
    """
    The tables whose rows are in the stream of a publication, largest first.

    ``joined`` says of entries of the publication where they came into it; a partitioned one has leaves.
    """
    listed = conn.info.server_version >= _COLUMN_LISTS_FROM
    columns = "p.attnames::text[]" if listed else "NULL::text[]"
    filters = "p.rowfilter" if listed else "NULL::text"
    found = _described(conn, _PUBLISHED.format(columns=columns, filters=filters), publication)
    since = _since(conn, joined or {})
    return [replace(table, joined=since.get(table.relation.relid)) for table in found]


def _since(conn: Connection, joined: Mapping[int, Lsn]) -> dict[int, Lsn]:
    rows = conn.execute(_TREES + _PARTS, (list(joined),))
    return {relid: joined[root] for root, relid in rows}


def chosen_tables(conn: Connection, relids: Sequence[int]) -> list[CopiedTable]:
    """These tables as a whole, largest first."""
    return _described(conn, _CHOSEN, list(relids))


def _described(conn: Connection, query: str, value: Any) -> list[CopiedTable]:
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: list[Any] = cursor.execute(query, (value,)).fetchall()
        found = {row.oid: row for row in rows}
        heaps = _heaps(cursor.execute(_TREES + _HEAPS, (list(found),)).fetchall())
        described = _columns(cursor.execute(_COLUMNS, (list(found),)).fetchall())
    if conn.info.server_version < _GENERATED_FROM:
        described = {oid: [each for each in columns if not each[1]] for oid, columns in described.items()}
    tables = [
        CopiedTable(
            Relation(
                oid, row.schema, row.name, row.identity, _published(described.get(oid, ()), row.columns)
            ),
            tuple(heaps.get(oid, ())),
            row.row_filter,
        )
        for oid, row in found.items()
    ]
    return sorted(tables, key=lambda table: (-table.bytes, table.qualified))


def tables_besides(conn: Connection, relids: Sequence[int]) -> list[str]:
    """All tables but these, their partitions and parents, as ``"schema"."name"``."""
    return [row[0] for row in conn.execute(_TREES + _BESIDES, (list(relids),))]


def roots_without_partitions(conn: Connection) -> list[tuple[int, str, str]]:
    """Partitioned tables that have no rows because they have no partitions: number, schema, name."""
    return [
        (relid, schema, name)
        for relid, schema, name in conn.execute(
            "SELECT c.oid::int8, n.nspname, c.relname FROM pg_catalog.pg_class c"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p'"
            " AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid)"
        )
    ]


def rewritten_tables(conn: Connection, tables: Sequence[CopiedTable]) -> list[int]:
    """Those whose rows are in other files now than they were at the point, or which are gone."""
    then = {heap.relid: heap.filenode for table in tables for heap in table.heaps}
    now: dict[int, int | None] = dict(
        conn.execute(
            "SELECT oid, pg_catalog.pg_relation_filenode(oid) FROM unnest(%s::oid[]) AS heap(oid)",
            (list(then),),
        ).fetchall()
    )
    return [
        table.relation.relid
        for table in tables
        if any(now.get(heap.relid) != heap.filenode for heap in table.heaps)
    ]


def owned_sequences(conn: Connection) -> dict[tuple[str, str], tuple[str, str]]:
    """By schema and name: the table that a sequence belongs to."""
    rows = conn.execute(
        "SELECT sn.nspname, s.relname, tn.nspname, t.relname FROM pg_catalog.pg_depend d "
        "JOIN pg_catalog.pg_class s ON s.oid = d.objid AND s.relkind = 'S' "
        "JOIN pg_catalog.pg_namespace sn ON sn.oid = s.relnamespace "
        "JOIN pg_catalog.pg_class t ON t.oid = d.refobjid "
        "JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace "
        "WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = d.classid "
        "AND d.deptype IN ('a', 'i')"
    )
    return {(schema, name): (owner_schema, owner) for schema, name, owner_schema, owner in rows}


def sequence_values(conn: Connection) -> dict[tuple[str, str], int]:
    """The last value of every sequence that was used, by schema and name."""
    rows = conn.execute(
        "SELECT schemaname, sequencename, last_value FROM pg_catalog.pg_sequences "
        "WHERE last_value IS NOT NULL AND schemaname <> 'pgsluice'"
    )
    return {(schema, name): value for schema, name, value in rows}


def filled_views(conn: Connection) -> list[tuple[str, str]]:
    """The materialized views that have rows or could have: schema and name, in the order they were made."""
    rows = conn.execute(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'm' AND c.relispopulated ORDER BY c.oid"
    )
    return [(schema, name) for schema, name in rows]


_COLUMN_LISTS_FROM: Final = 150000
_GENERATED_FROM: Final = (
    180000  # a publication may have generated columns; before, its list names them in vain
)

_PUBLISHED: Final = """
SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relreplident::text AS identity,
       {columns} AS columns, {filters} AS row_filter
  FROM pg_catalog.pg_publication_tables p
  JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
 WHERE p.pubname = %s AND n.nspname <> 'pgsluice'"""

_CHOSEN: Final = """
SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relreplident::text AS identity,
       NULL::text[] AS columns, NULL::text AS row_filter
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ANY (%s::oid[])"""

# Tables with their partitions, at all levels: what the queries below begin with. The server's own function
# for that locks them till the end of the transaction, which is that of a whole copy: others would wait for
# it, and our own readers for them.
_TREES: Final = """
WITH RECURSIVE part(root, oid) AS (
    SELECT oid, oid FROM unnest(%s::oid[]) AS given(oid)
    UNION
    SELECT part.root, i.inhrelid
      FROM part
      JOIN pg_catalog.pg_inherits i ON i.inhparent = part.oid
      JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition
)"""
_PARTS: Final = " SELECT root, oid FROM part"

# A partitioned table that is published by its own name has its rows in its leaves.
_HEAPS: Final = """
SELECT part.root AS table_oid, c.oid, n.nspname AS schema, c.relname AS name, c.relfilenode AS filenode,
       coalesce(pg_catalog.pg_relation_size(c.oid), 0) / current_setting('block_size')::int AS pages,
       coalesce(pg_catalog.pg_table_size(c.oid), 0) AS bytes
  FROM part
  JOIN pg_catalog.pg_class c ON c.oid = part.oid AND c.relkind = 'r'
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 ORDER BY 1, 2"""

# The flag as the stream sets it: all columns with FULL, else those of the key or index that is used.
_COLUMNS: Final = """
SELECT a.attrelid AS table_oid, a.attname AS name, a.atttypid AS type_oid, a.atttypmod AS typmod,
       c.relreplident = 'f' OR EXISTS (
           SELECT FROM pg_catalog.pg_index i
            CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
            WHERE i.indrelid = a.attrelid AND k.attnum = a.attnum AND k.place <= i.indnkeyatts
              AND i.indimmediate
              AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
       ) AS in_identity,
       a.attgenerated <> '' AS generated
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
 WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum"""


_BESIDES: Final = """, kept AS (
    SELECT oid FROM part
    UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN kept ON kept.oid = i.inhrelid
)
SELECT pg_catalog.format('"%%s"."%%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""'))
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pgsluice')
   AND n.nspname NOT LIKE 'pg\\_%%' AND c.oid NOT IN (SELECT oid FROM kept)
 ORDER BY 1"""


def _heaps(rows: list[Any]) -> dict[int, list[Heap]]:
    found: dict[int, list[Heap]] = {}
    for row in rows:
        heap = Heap(row.oid, row.schema, row.name, row.filenode, row.pages, row.bytes)
        found.setdefault(row.table_oid, []).append(heap)
    return found


def _columns(rows: list[Any]) -> dict[int, list[tuple[RelationColumn, bool]]]:
    found: dict[int, list[tuple[RelationColumn, bool]]] = {}
    for row in rows:
        column = RelationColumn(row.name, row.type_oid, row.typmod, row.in_identity)
        found.setdefault(row.table_oid, []).append((column, row.generated))
    return found


def _published(
    columns: Sequence[tuple[RelationColumn, bool]], listed: Sequence[str] | None
) -> tuple[RelationColumn, ...]:
    """The columns that are published: those of the list, or all that are not generated."""
    if listed is None:
        return tuple(column for column, generated in columns if not generated)
    return tuple(column for column, _ in columns if column.name in listed)
