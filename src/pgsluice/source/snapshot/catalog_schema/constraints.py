"""Keys, checks, indexes and foreign keys: made when the rows are there, which is faster."""

# ruff: noqa: S608 - what is put into the statements are constants

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.source.snapshot.catalog_schema.found import (
    ATTACHED_INDEX,
    OWN,
    Found,
    ObjectId,
    read_objects,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection


def constraints(conn: Connection) -> Iterator[Found]:
    """Rules of tables, indexes, which of them are parts of which, and further statistics."""
    for query in (_CONSTRAINTS, _INDEXES, _STATISTICS):
        yield from read_objects(conn, query)
    for row in rows(conn, _ATTACHED):
        both = (ObjectId(row.catalog, row.oid), ObjectId(row.catalog, row.parent_oid))
        yield Found(ObjectId(ATTACHED_INDEX, row.oid), "INDEX ATTACH", row.name, row.sql, row.belongs, both)


# What a table says about an index of its own: that it is the identity, that rows are clustered by it.
_MARKS: Final = """
       || CASE WHEN x.indisreplident THEN format(
              E';\\nALTER TABLE ONLY %I.%I REPLICA IDENTITY USING INDEX %I', n.nspname, c.relname, i.relname)
          ELSE '' END
       || CASE WHEN x.indisclustered THEN format(
              E';\\nALTER TABLE %I.%I CLUSTER ON %I', n.nspname, c.relname, i.relname) ELSE '' END
       || coalesce((
              SELECT string_agg(format(E';\\nALTER INDEX %I.%I ALTER COLUMN %s SET STATISTICS %s',
                         n.nspname, i.relname, a.attnum, a.attstattarget), '' ORDER BY a.attnum)
                FROM pg_attribute a WHERE a.attrelid = i.oid AND a.attstattarget >= 0), '')"""

# A key is of one table alone, and its parts are attached; checks and foreign keys the server hands down.
_CONSTRAINTS: Final = f"""
SELECT r.tableoid AS catalog, r.oid, c.oid AS belongs,
       format('%s.%s %s', n.nspname, c.relname, r.conname) AS name,
       CASE r.contype WHEN 'f' THEN 'FK CONSTRAINT' WHEN 'c' THEN 'CHECK CONSTRAINT' ELSE 'CONSTRAINT' END
           AS kind,
       format('ALTER TABLE %s%I.%I ADD CONSTRAINT %I %s',
           CASE WHEN r.contype IN ('p', 'u', 'x') THEN 'ONLY ' ELSE '' END, n.nspname, c.relname, r.conname,
           pg_get_constraintdef(r.oid)) || CASE WHEN x.indexrelid IS NULL THEN '' ELSE '' {_MARKS} END
           AS sql
  FROM pg_constraint r
  JOIN pg_class c ON c.oid = r.conrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN (pg_index x JOIN pg_class i ON i.oid = x.indexrelid)
    ON r.contype IN ('p', 'u', 'x') AND x.indexrelid = r.conindid
 WHERE {OWN} AND CASE r.contype WHEN 'c' THEN r.conislocal WHEN 'n' THEN r.conislocal AND NOT r.convalidated
       WHEN 'f' THEN r.conparentid = 0 ELSE r.contype IN ('p', 'u', 'x') END"""

_INDEXES: Final = f"""
SELECT i.tableoid AS catalog, i.oid, 'INDEX' AS kind, n.nspname || '.' || i.relname AS name, c.oid AS belongs,
       pg_get_indexdef(i.oid) {_MARKS} AS sql
  FROM pg_index x
  JOIN pg_class i ON i.oid = x.indexrelid
  JOIN pg_class c ON c.oid = x.indrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE {OWN} AND (x.indisvalid OR c.relkind = 'p') AND NOT EXISTS (
       SELECT FROM pg_constraint r WHERE r.conindid = i.oid AND r.contype IN ('p', 'u', 'x'))"""

_ATTACHED: Final = f"""
SELECT i.tableoid AS catalog, i.oid, p.oid AS parent_oid, x.indrelid AS belongs,
       n.nspname || '.' || i.relname AS name,
       format('ALTER INDEX %I.%I ATTACH PARTITION %I.%I', pn.nspname, p.relname, n.nspname, i.relname)
           AS sql
  FROM pg_inherits h
  JOIN pg_class i ON i.oid = h.inhrelid
  JOIN pg_index x ON x.indexrelid = i.oid
  JOIN pg_class p ON p.oid = h.inhparent
  JOIN pg_namespace n ON n.oid = i.relnamespace
  JOIN pg_namespace pn ON pn.oid = p.relnamespace
 WHERE {OWN}"""

_STATISTICS: Final = f"""
SELECT s.tableoid AS catalog, s.oid, 'STATISTICS' AS kind, n.nspname || '.' || s.stxname AS name,
       s.stxrelid AS belongs,
       pg_get_statisticsobjdef(s.oid) || CASE WHEN s.stxstattarget >= 0 THEN format(
           E';\\nALTER STATISTICS %I.%I SET STATISTICS %s', n.nspname, s.stxname, s.stxstattarget)
           ELSE '' END AS sql
  FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
 WHERE {OWN}"""
