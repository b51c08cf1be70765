"""Tables with their columns, as they are before rows come; keys and other rules are made after them."""

# ruff: noqa: S608 - what is put into the statements are constants

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgsluice.source.snapshot.catalog_schema.found import (
    ATTACHED_TABLE,
    OWN,
    Found,
    ObjectId,
    rows,
)
from pgsluice.source.snapshot.catalog_schema.kinds import COLLATED, SEQUENCE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.source.snapshot.catalog_schema.secrets import Secrets


def tables(
    conn: Connection, late: Container[ObjectId], without: Mapping[int, Container[int]], secrets: Secrets
) -> Iterator[Found]:
    """
    Tables, which of them are partitions of which, and defaults that can only be set later.

    ``late`` has the defaults that need the table they belong to, ``without`` columns to leave out.
    """
    columns: dict[int, list[Any]] = {}
    for column in rows(conn, _COLUMNS):
        if column.attnum not in without.get(column.table_oid, ()):
            columns.setdefault(column.table_oid, []).append(secrets.told(column))
    for table in rows(conn, _TABLES):
        held = columns.get(table.oid, [])
        yield Found(
            ObjectId(table.catalog, table.oid), "TABLE", table.name, _created(table, held, late), table.oid
        )
        for column in held:
            if column.default_sql and _default_id(column) in late:
                yield Found(_default_id(column), "DEFAULT", table.name, column.default_sql, table.oid)
        if table.attached is not None:
            both = (ObjectId(table.catalog, table.oid), ObjectId(table.catalog, table.parent_oid))
            attached = ObjectId(ATTACHED_TABLE, table.oid)
            yield Found(attached, "TABLE ATTACH", table.name, table.attached, table.oid, both)


def _created(table: Any, columns: Sequence[Any], late: Container[ObjectId]) -> str:
    """The statement that makes a table, and what goes with it."""
    own = [column for column in columns if column.attislocal or table.relispartition]
    inherited = [column for column in columns if column not in own]
    lines = [_column(table, column, late) for column in own]
    lines += [
        f"{column.named_not_null} {column.quoted}"
        for column in inherited
        if column.named_not_null and column.rule_is_own
    ]
    body = ",".join(f"\n    {line}" for line in lines)
    made = f"CREATE {table.unlogged}TABLE {table.quoted} ({body}\n){table.inherits}{table.tail}"
    further = [
        *(
            f"ALTER TABLE ONLY {table.quoted} ALTER COLUMN {column.quoted} SET NOT NULL"
            for column in inherited
            if column.attnotnull and not column.named_not_null and not column.has_rule
        ),
        *(_inherited_default(table, column) for column in inherited if column.overrides),
        *(extra for column in columns for extra in column.extras),
        *table.extras,
    ]
    return ";\n".join([made, *further])


def _column(table: Any, column: Any, late: Container[ObjectId]) -> str:
    text = f"{column.definition}{column.generated or ''}{column.identity or ''}"
    if column.default_sql and _default_id(column) not in late:
        text += f" DEFAULT {column.default_value}"
    if column.named_not_null:
        # What a partition must have before it becomes one, a table that inherits has by that.
        return f"{text} {column.named_not_null}" if column.rule_is_own or table.relispartition else text
    return f"{text} NOT NULL" if column.attnotnull and not column.has_rule else text


def _inherited_default(table: Any, column: Any) -> str:
    return column.default_sql or (
        f"ALTER TABLE ONLY {table.quoted} ALTER COLUMN {column.quoted} DROP DEFAULT"
    )


def _default_id(column: Any) -> ObjectId:
    return ObjectId(column.default_catalog, column.default_oid)


OPTIONS: Final = """(SELECT string_agg(format('{prefix}%I=%L', o.option_name, o.option_value), ', ')
    FROM pg_options_to_table({options}) o)"""

_TABLES: Final = f"""
SELECT c.tableoid AS catalog, c.oid, n.nspname || '.' || c.relname AS name, c.relispartition,
       format('%I.%I', n.nspname, c.relname) AS quoted,
       CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END AS unlogged,
       CASE WHEN c.relispartition THEN '' ELSE coalesce(' INHERITS (' || parents.names || ')', '') END
           AS inherits,
       coalesce(' PARTITION BY ' || pg_get_partkeydef(c.oid), '')
       || coalesce(' USING ' || quote_ident(m.amname), '')
       || coalesce(' WITH (' || nullif(concat_ws(', ',
              {OPTIONS.format(prefix="", options="c.reloptions")},
              {OPTIONS.format(prefix="toast.", options="x.reloptions")}), '') || ')', '') AS tail,
       array_remove(ARRAY[
           CASE WHEN c.relreplident IN ('f', 'n') THEN format('ALTER TABLE ONLY %I.%I REPLICA IDENTITY %s',
               n.nspname, c.relname, CASE c.relreplident WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END) END,
           CASE WHEN c.reloftype <> 0 THEN format('ALTER TABLE %I.%I OF %s', n.nspname, c.relname,
               format_type(c.reloftype, NULL)) END
       ], NULL) AS extras,
       parents.first AS parent_oid,
       CASE WHEN c.relispartition THEN format('ALTER TABLE ONLY %s ATTACH PARTITION %I.%I %s',
           parents.names, n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid)) END AS attached
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_am m ON m.oid = c.relam AND m.amname <> 'heap'
  LEFT JOIN pg_class x ON x.oid = c.reltoastrelid
 CROSS JOIN LATERAL (
       SELECT string_agg(format('%I.%I', pn.nspname, p.relname), ', ' ORDER BY i.inhseqno)
              AS names, min(p.oid) AS first
         FROM pg_inherits i
         JOIN pg_class p ON p.oid = i.inhparent
         JOIN pg_namespace pn ON pn.oid = p.relnamespace
        WHERE i.inhrelid = c.oid) parents
 WHERE c.relkind IN ('r', 'p') AND {OWN}"""

# From 18 on NOT NULL is a rule with a name; one that was never checked comes with the other rules.
_COLUMNS: Final = f"""
SELECT a.attrelid AS table_oid, a.attnum, a.attislocal, a.attnotnull, quote_ident(a.attname) AS quoted,
       concat_ws('.', n.nspname, c.relname, a.attname) AS named,
       format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod))
       || {COLLATED.format(has="a.attcollation", usual="t.typcollation")} AS definition,
       CASE WHEN a.attgenerated <> '' THEN format(' GENERATED ALWAYS AS (%s)%s',
           pg_get_expr(d.adbin, d.adrelid), CASE a.attgenerated WHEN 's' THEN ' STORED' ELSE '' END)
           END AS generated,
       CASE WHEN s.oid IS NOT NULL THEN format(' GENERATED %s AS IDENTITY (SEQUENCE NAME %I.%I ',
           CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, sn.nspname, s.relname)
           || {SEQUENCE_OPTIONS} || ')' END AS identity,
       d.tableoid AS default_catalog, d.oid AS default_oid, pg_get_expr(d.adbin, d.adrelid) AS default_value,
       CASE WHEN a.attgenerated = '' AND d.oid IS NOT NULL THEN format(
           'ALTER TABLE ONLY %I.%I ALTER COLUMN %I SET DEFAULT %s', n.nspname, c.relname, a.attname,
           pg_get_expr(d.adbin, d.adrelid)) END AS default_sql,
       a.attgenerated = '' AND (d.oid IS NOT NULL OR EXISTS (
           SELECT FROM pg_inherits i
             JOIN pg_attribute pa ON pa.attrelid = i.inhparent AND pa.attname = a.attname
            WHERE i.inhrelid = c.oid AND pa.atthasdef AND pa.attgenerated = '')) AS overrides,
       r.oid IS NOT NULL AS has_rule, r.conislocal AS rule_is_own,
       CASE WHEN r.convalidated THEN format('CONSTRAINT %I NOT NULL', r.conname)
           || CASE WHEN r.connoinherit THEN ' NO INHERIT' ELSE '' END END AS named_not_null,
       array_remove(ARRAY[
           CASE WHEN a.attstorage <> t.typstorage THEN altered.what || 'STORAGE ' || CASE a.attstorage
               WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END,
           CASE a.attcompression WHEN 'p' THEN altered.what || 'COMPRESSION pglz'
               WHEN 'l' THEN altered.what || 'COMPRESSION lz4' END,
           CASE WHEN a.attstattarget >= 0 THEN altered.what || 'STATISTICS ' || a.attstattarget END,
           altered.what || '(' || {OPTIONS.format(prefix="", options="a.attoptions")} || ')'
       ], NULL) AS extras
  FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
  LEFT JOIN pg_constraint r ON r.conrelid = c.oid AND r.contype = 'n' AND r.conkey = ARRAY[a.attnum]
  LEFT JOIN (pg_depend i JOIN pg_class s ON s.oid = i.objid AND s.relkind = 'S'
             JOIN pg_sequence q ON q.seqrelid = s.oid
             JOIN pg_namespace sn ON sn.oid = s.relnamespace)
    ON i.classid = c.tableoid AND i.refclassid = c.tableoid AND i.refobjid = c.oid
       AND i.refobjsubid = a.attnum AND i.deptype = 'i'
 CROSS JOIN LATERAL (SELECT format('ALTER TABLE ONLY %I.%I ALTER COLUMN %I SET ', n.nspname,
       c.relname, a.attname)) altered(what)
 WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped AND {OWN}
 ORDER BY a.attrelid, a.attnum"""
