"""Schemas, extensions, types, sequences and functions: what tables are made of."""

# ruff: noqa: S608 - what is put into the statements are constants

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pgsluice.source.snapshot.catalog_schema.found import (
    OWN,
    OWNED_SEQUENCE,
    Found,
    ObjectId,
    read_objects,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection


def schemas(conn: Connection) -> list[Found]:
    """Schemas; ``public`` is there in every database."""
    return read_objects(conn, _SCHEMAS)


def extensions(conn: Connection) -> list[Found]:
    """Extensions, but for those of every new database."""
    return read_objects(conn, _EXTENSIONS)


def types(conn: Connection) -> list[Found]:
    """Enums, domains, composites and ranges."""
    return [
        found for query in (_ENUMS, _DOMAINS, _COMPOSITES, _RANGES) for found in read_objects(conn, query)
    ]


def sequences(conn: Connection) -> Iterator[Found]:
    """Sequences that are not a column's identity, and the columns that own them."""
    yield from read_objects(conn, _SEQUENCES)
    for owned in read_objects(conn, _OWNED):
        yield replace(
            owned,
            id=ObjectId(OWNED_SEQUENCE, owned.id.oid),
            needs=(owned.id, ObjectId(owned.id.catalog, owned.belongs)),
        )


def routines(conn: Connection) -> list[Found]:
    """Functions and procedures; one that the target has stays as it is."""
    return [
        replace(found, sql=_OR_REPLACE.sub("CREATE ", found.sql)) for found in read_objects(conn, _ROUTINES)
    ]


_OR_REPLACE: Final = re.compile(r"\ACREATE OR REPLACE ")

SEQUENCE_OPTIONS: Final = """format(
    'START WITH %s INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s%s', q.seqstart, q.seqincrement, q.seqmin,
    q.seqmax, q.seqcache, CASE WHEN q.seqcycle THEN ' CYCLE' ELSE '' END)"""

_SCHEMAS: Final = f"""
SELECT n.tableoid AS catalog, n.oid, 'SCHEMA' AS kind, n.nspname AS name,
       format('CREATE SCHEMA %I', n.nspname) AS sql, 0 AS belongs
  FROM pg_namespace n WHERE {OWN} AND n.nspname <> 'public'"""

# Numbers below this one are given out while a database is made.
_EXTENSIONS: Final = """
SELECT e.tableoid AS catalog, e.oid, 'EXTENSION' AS kind, e.extname AS name,
       format('CREATE EXTENSION IF NOT EXISTS %I WITH SCHEMA %I', e.extname, n.nspname) AS sql,
       0 AS belongs
  FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
 WHERE e.oid >= 16384"""

_ENUMS: Final = f"""
SELECT t.tableoid AS catalog, t.oid, 'TYPE' AS kind, n.nspname || '.' || t.typname AS name, 0 AS belongs,
       format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname, (
           SELECT string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder)
             FROM pg_enum l WHERE l.enumtypid = t.oid)) AS sql
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE t.typtype = 'e' AND {OWN}"""

COLLATED: Final = """CASE WHEN {has} <> 0 AND {has} <> {usual} THEN (
    SELECT format(' COLLATE %I.%I', cn.nspname, co.collname)
      FROM pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace
     WHERE co.oid = {has}) ELSE '' END"""

# A rule that was never checked can only be added to a domain that is there.
_DOMAINS: Final = f"""
SELECT t.tableoid AS catalog, t.oid, 'DOMAIN' AS kind, n.nspname || '.' || t.typname AS name, 0 AS belongs,
       format('CREATE DOMAIN %I.%I AS %s', n.nspname, t.typname,
           format_type(t.typbasetype, t.typtypmod))
       || {COLLATED.format(has="t.typcollation", usual="b.typcollation")}
       || coalesce(' DEFAULT ' || t.typdefault, '')
       || CASE WHEN t.typnotnull AND NOT EXISTS (
              SELECT FROM pg_constraint r WHERE r.contypid = t.oid AND r.contype = 'n')
          THEN ' NOT NULL' ELSE '' END
       || coalesce((
           SELECT string_agg(format(' CONSTRAINT %I %s', r.conname,
                      pg_get_constraintdef(r.oid)), '' ORDER BY r.conname)
             FROM pg_constraint r WHERE r.contypid = t.oid AND r.convalidated), '')
       || coalesce((
           SELECT string_agg(format(E';\\nALTER DOMAIN %I.%I ADD CONSTRAINT %I %s',
                      n.nspname, t.typname, r.conname, pg_get_constraintdef(r.oid)), ''
                      ORDER BY r.conname)
             FROM pg_constraint r WHERE r.contypid = t.oid AND NOT r.convalidated), '') AS sql
  FROM pg_type t
  JOIN pg_namespace n ON n.oid = t.typnamespace
  JOIN pg_type b ON b.oid = t.typbasetype
 WHERE t.typtype = 'd' AND {OWN}"""

_COMPOSITES: Final = f"""
SELECT t.tableoid AS catalog, t.oid, 'TYPE' AS kind, n.nspname || '.' || t.typname AS name, 0 AS belongs,
       format('CREATE TYPE %I.%I AS (%s)', n.nspname, t.typname, (
           SELECT string_agg(format('%I %s', a.attname,
                      format_type(a.atttypid, a.atttypmod))
                      || {COLLATED.format(has="a.attcollation", usual="y.typcollation")}, ', '
                      ORDER BY a.attnum)
             FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)) AS sql
  FROM pg_class c
  JOIN pg_type t ON t.oid = c.reltype
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'c' AND {OWN}"""

_RANGES: Final = f"""
SELECT t.tableoid AS catalog, t.oid, 'TYPE' AS kind, n.nspname || '.' || t.typname AS name, 0 AS belongs,
       format('CREATE TYPE %I.%I AS RANGE (SUBTYPE = %s, MULTIRANGE_TYPE_NAME = %I.%I', n.nspname,
           t.typname, format_type(g.rngsubtype, NULL), n.nspname, m.typname)
       || CASE WHEN o.opcdefault THEN '' ELSE format(', SUBTYPE_OPCLASS = %I.%I', (
              SELECT s.nspname FROM pg_namespace s WHERE s.oid = o.opcnamespace), o.opcname) END
       || replace({COLLATED.format(has="g.rngcollation", usual="b.typcollation")},
              ' COLLATE ', ', COLLATION = ')
       || CASE WHEN g.rngsubdiff = 0 THEN '' ELSE ', SUBTYPE_DIFF = ' || g.rngsubdiff::regproc END
       || ')' AS sql
  FROM pg_range g
  JOIN pg_type t ON t.oid = g.rngtypid
  JOIN pg_type m ON m.oid = g.rngmultitypid
  JOIN pg_type b ON b.oid = g.rngsubtype
  JOIN pg_opclass o ON o.oid = g.rngsubopc
  JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE {OWN} AND g.rngcanonical = 0"""

_OWNER: Final = """
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_depend d ON d.classid = c.tableoid AND d.objid = c.oid AND d.objsubid = 0
       AND d.refclassid = c.tableoid AND d.deptype IN ('a', 'i')"""

_SEQUENCES: Final = f"""
SELECT c.tableoid AS catalog, c.oid, 'SEQUENCE' AS kind, n.nspname || '.' || c.relname AS name,
       coalesce(d.refobjid, 0) AS belongs,
       format('CREATE %sSEQUENCE %I.%I AS %s ',
           CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, n.nspname, c.relname,
           format_type(q.seqtypid, NULL)) || {SEQUENCE_OPTIONS} AS sql
  FROM pg_class c JOIN pg_sequence q ON q.seqrelid = c.oid {_OWNER}
 WHERE {OWN} AND d.deptype IS DISTINCT FROM 'i'"""

_OWNED: Final = f"""
SELECT c.tableoid AS catalog, c.oid, 'SEQUENCE OWNED BY' AS kind, n.nspname || '.' || c.relname AS name,
       d.refobjid AS belongs,
       format('ALTER SEQUENCE %I.%I OWNED BY %I.%I.%I', n.nspname, c.relname, tn.nspname, t.relname,
           a.attname) AS sql
  FROM pg_class c {_OWNER}
  JOIN pg_class t ON t.oid = d.refobjid
  JOIN pg_namespace tn ON tn.oid = t.relnamespace
  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
 WHERE {OWN} AND c.relkind = 'S' AND d.deptype = 'a'"""

_ROUTINES: Final = f"""
SELECT p.tableoid AS catalog, p.oid, CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS kind,
       format('%s.%s(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
           AS name,
       pg_get_functiondef(p.oid) AS sql, 0 AS belongs
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE {OWN} AND p.prokind <> 'a' AND NOT EXISTS (
       SELECT FROM pg_depend e
        WHERE e.classid = p.tableoid AND e.objid = p.oid AND e.deptype = 'e')"""
