"""The names of the source's own objects, for a target that is cleaned of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.schema.statements import NamedObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection


def named_objects(conn: Connection, without: Sequence[str]) -> list[NamedObject]:
    """Tables, views, sequences that no table owns, types, functions; ``without`` as ``"schema"."name"``."""
    return [NamedObject(*row) for row in conn.execute(_OBJECTS, (list(without),))]


_OBJECTS: Final = """
SELECT kind, schema, name, arguments FROM (
    SELECT 'RELATION' AS kind, n.nspname AS schema, c.relname AS name, '' AS arguments
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S')
       AND '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"' <> ALL (%s)
       AND NOT (c.relkind = 'S' AND EXISTS (
           SELECT FROM pg_catalog.pg_depend d WHERE d.classid = c.tableoid AND d.objid = c.oid
              AND d.refclassid = c.tableoid AND d.deptype IN ('a', 'i')))
    UNION ALL
    SELECT 'TYPE', n.nspname, t.typname, ''
      FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
      LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
     WHERE t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c'
    UNION ALL
    SELECT 'ROUTINE', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)
      FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
     WHERE NOT EXISTS (
           SELECT FROM pg_catalog.pg_depend d
            WHERE d.classid = p.tableoid AND d.objid = p.oid AND d.deptype = 'e')
) o WHERE schema !~ '^pg_' AND schema NOT IN ('information_schema', 'pgsluice')
ORDER BY 1, 2, 3"""
