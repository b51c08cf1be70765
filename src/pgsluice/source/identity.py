"""
How UPDATE and DELETE of each table name their row: the replica identity, and whether it can be used.

A published table without a usable identity makes its application's UPDATE and DELETE fail, so
:mod:`pgsluice.source.publication` asks here before it publishes anything. "Usable" follows the server's own
test (CheckCmdReplicaIdentity), which is stricter than "has a primary key".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from psycopg.rows import namedtuple_row

from pgsluice.source.names import quoted

if TYPE_CHECKING:
    import psycopg

    from pgsluice.schema.table import Identity

Kind = Literal["r", "p"]
"""pg_class.relkind: an ordinary table (a leaf partition included) or a partitioned one."""

GENERATED_COUNT_FROM = 180000
"""From this version on unpublished generated columns in an identity make UPDATE fail."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A permanent table of the source, and its replica identity."""

    relid: int
    schema: str
    name: str
    kind: Kind
    owner: str
    extension: str | None  # the table belongs to this extension
    root: int | None  # of a partition: the topmost partitioned table
    identity: Identity
    key: tuple[str, ...]  # columns of the identity's index
    has_generated: bool  # any generated column
    problem: str  # why the identity can't be used; empty when it can

    @property
    def usable(self) -> bool:
        """Whether UPDATE and DELETE go on working when this table is published."""
        return not self.problem

    @property
    def qualified(self) -> str:
        """``schema.name``, for people."""
        return f"{self.schema}.{self.name}"

    @property
    def in_sql(self) -> str:
        """The name for statements that people copy."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


def read_tables(conn: psycopg.Connection[Any]) -> tuple[SourceTable, ...]:
    """Every permanent table of the database outside the system's schemas, by name."""
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        rows: list[Any] = cursor.execute(_TABLES).fetchall()
    version = conn.info.server_version
    return tuple(
        SourceTable(
            row.oid, row.schema, row.name, row.kind, row.owner, row.extension, row.root, row.identity,
            tuple(row.key or ()), row.has_generated, _problem(row, version),
        )
        for row in rows
    )  # fmt: skip


_TABLES = """
    SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
           pg_catalog.pg_get_userbyid(c.relowner) AS owner,
           (SELECT e.extname FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
             WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid
               AND d.deptype = 'e') AS extension,
           CASE WHEN c.relispartition THEN pg_catalog.pg_partition_root(c.oid)::oid END AS root,
           c.relreplident::text AS identity,
           i.indexrelid IS NOT NULL AS has_index, i.immediate, i.valid, i.partial, i.key, i.all_not_null,
           i.key_generated, g.has_generated
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN LATERAL (
           SELECT x.indexrelid, x.indimmediate AS immediate, x.indisvalid AS valid,
                  x.indpred IS NOT NULL AS partial,
                  array_agg(a.attname ORDER BY k.ordinality) AS key,
                  bool_and(a.attnotnull) AS all_not_null, bool_or(a.attgenerated <> '') AS key_generated
             FROM pg_catalog.pg_index x
            CROSS JOIN LATERAL unnest(x.indkey::int2[]) WITH ORDINALITY AS k(attnum, ordinality)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum
            WHERE x.indrelid = c.oid AND k.ordinality <= x.indnkeyatts AND x.indisunique
              AND CASE c.relreplident WHEN 'd' THEN x.indisprimary WHEN 'i' THEN x.indisreplident END
            GROUP BY 1, 2, 3, 4) i ON true
      CROSS JOIN LATERAL (
           SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                           WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attgenerated <> '')
                  AS has_generated) g
     WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
       AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
     ORDER BY 2, 3"""


def _problem(row: Any, version: int) -> str:
    if row.identity == "f":
        unpublished = row.has_generated and version >= GENERATED_COUNT_FROM
        return "identity FULL with generated columns, which are not published" if unpublished else ""
    if row.identity == "n":
        return "identity NOTHING"
    what = "primary key" if row.identity == "d" else "identity index"
    if not row.has_index:
        return f"no {what}"
    wrongs = (
        (not row.immediate, "is DEFERRABLE"),
        (not row.valid, "is not valid"),
        (row.partial, "is partial"),
        (not row.all_not_null, "allows NULL"),
        (row.key_generated, "has a generated column, which is not published"),
    )
    return next((f"its {what} {wrong}" for is_so, wrong in wrongs if is_so), "")
