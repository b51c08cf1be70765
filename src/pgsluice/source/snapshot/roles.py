"""The roles that objects of the source belong to, or that have rights on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.schema.statements import SchemaStatement

if TYPE_CHECKING:
    from pgsluice.postgres.session import Connection


def role_statements(conn: Connection) -> tuple[SchemaStatement, ...]:
    """
    What makes these roles, without a password and without any power over the server.

    Whether they may log in is kept; those of the server itself are everywhere.
    """
    return tuple(SchemaStatement("ROLE", name, sql) for name, sql in conn.execute(_ROLES).fetchall())


# Of the role that made the server nothing is noted in pg_shdepend: it owns what has no other owner there.
_ROLES: Final = """
SELECT r.rolname, pg_catalog.format('CREATE ROLE %I %s %s', r.rolname,
       CASE WHEN r.rolcanlogin THEN 'LOGIN' ELSE 'NOLOGIN' END,
       CASE WHEN r.rolinherit THEN 'INHERIT' ELSE 'NOINHERIT' END)
  FROM pg_catalog.pg_roles r
 WHERE r.rolname !~ '^pg_' AND (
       EXISTS (SELECT FROM pg_catalog.pg_shdepend d JOIN pg_catalog.pg_database b ON b.oid = d.dbid
                WHERE b.datname = pg_catalog.current_database() AND d.refobjid = r.oid
                  AND d.refclassid = 'pg_catalog.pg_authid'::regclass)
       OR EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.relowner = r.oid AND n.nspname !~ '^pg_'
                     AND n.nspname NOT IN ('information_schema', 'pgsluice')))
 ORDER BY 1"""
