"""Views, and what acts beside rows: triggers, rules, policies."""

# ruff: noqa: S608 - what is put into the statements are constants

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.source.snapshot.catalog_schema.found import OWN, Found, read_objects
from pgsluice.source.snapshot.catalog_schema.tables import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection


def views(conn: Connection) -> Iterator[Found]:
    """Views, materialized ones without their rows, and the defaults of views."""
    for query in (_VIEWS, _VIEW_DEFAULTS):
        yield from read_objects(conn, query)


def actions(conn: Connection) -> Iterator[Found]:
    """Triggers, rules, and what hides rows."""
    for query in (_TRIGGERS, _RULES, _POLICIES, _ROW_SECURITY):
        yield from read_objects(conn, query)


_VIEWS: Final = f"""
SELECT c.tableoid AS catalog, c.oid, n.nspname || '.' || c.relname AS name, c.oid AS belongs,
       CASE c.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END AS kind,
       format('CREATE %sVIEW %I.%I', CASE c.relkind WHEN 'm' THEN 'MATERIALIZED ' ELSE '' END,
           n.nspname, c.relname)
       || coalesce(' WITH (' || {OPTIONS.format(prefix="", options="c.reloptions")} || ')', '')
       || ' AS ' || rtrim(pg_get_viewdef(c.oid), ';')
       || CASE c.relkind WHEN 'm' THEN ' WITH NO DATA' ELSE '' END AS sql
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('v', 'm') AND {OWN}"""

_VIEW_DEFAULTS: Final = f"""
SELECT d.tableoid AS catalog, d.oid, 'RULE' AS kind, n.nspname || '.' || c.relname AS name, c.oid AS belongs,
       format('ALTER VIEW %I.%I ALTER COLUMN %I SET DEFAULT %s', n.nspname, c.relname, a.attname,
           pg_get_expr(d.adbin, d.adrelid)) AS sql
  FROM pg_attrdef d
  JOIN pg_class c ON c.oid = d.adrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
 WHERE c.relkind = 'v' AND {OWN}"""

# What fires for replicated rows has done its work on the source: ALWAYS becomes plain, REPLICA is off.
_STATE: Final = """CASE WHEN {state} IN ('D', 'R') THEN format(
           E';\\nALTER TABLE %I.%I DISABLE {what} %I', n.nspname, c.relname, {name}) ELSE '' END"""

_TRIGGERS: Final = f"""
SELECT t.tableoid AS catalog, t.oid, 'TRIGGER' AS kind, c.oid AS belongs,
       format('%s.%s %s', n.nspname, c.relname, t.tgname) AS name,
       pg_get_triggerdef(t.oid)
       || {_STATE.format(state="t.tgenabled", what="TRIGGER", name="t.tgname")} AS sql
  FROM pg_trigger t
  JOIN pg_class c ON c.oid = t.tgrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE {OWN} AND NOT t.tgisinternal AND t.tgparentid = 0"""

_RULES: Final = f"""
SELECT w.tableoid AS catalog, w.oid, 'RULE' AS kind, c.oid AS belongs,
       format('%s.%s %s', n.nspname, c.relname, w.rulename) AS name,
       rtrim(pg_get_ruledef(w.oid), ';')
       || {_STATE.format(state="w.ev_enabled", what="RULE", name="w.rulename")} AS sql
  FROM pg_rewrite w
  JOIN pg_class c ON c.oid = w.ev_class
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE {OWN} AND w.rulename <> '_RETURN'"""

_POLICIES: Final = f"""
SELECT p.tableoid AS catalog, p.oid, 'POLICY' AS kind, c.oid AS belongs,
       format('%s.%s %s', n.nspname, c.relname, p.polname) AS name,
       format('CREATE POLICY %I ON %I.%I AS %s FOR %s TO %s', p.polname, n.nspname, c.relname,
           CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
           CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
               WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
           (SELECT string_agg(CASE g.oid WHEN 0 THEN 'PUBLIC'
                       ELSE quote_ident(pg_get_userbyid(g.oid)) END, ', ')
              FROM unnest(p.polroles) AS g(oid)))
       || coalesce(' USING (' || pg_get_expr(p.polqual, c.oid) || ')', '')
       || coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, c.oid) || ')', '') AS sql
  FROM pg_policy p
  JOIN pg_class c ON c.oid = p.polrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE {OWN}"""

# A statement of its own, under a number that no object has: the row of pg_class is the table's.
_ROW_SECURITY: Final = f"""
SELECT 0 AS catalog, c.oid, 'ROW SECURITY' AS kind, c.oid AS belongs, n.nspname || '.' || c.relname AS name,
       concat_ws(E';\\n',
           CASE WHEN c.relrowsecurity THEN
               format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', n.nspname, c.relname) END,
           CASE WHEN c.relforcerowsecurity THEN
               format('ALTER TABLE ONLY %I.%I FORCE ROW LEVEL SECURITY', n.nspname, c.relname) END) AS sql
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE (c.relrowsecurity OR c.relforcerowsecurity) AND {OWN}"""
