"""
All objects of a database, described by the functions of the migrations.

The source has these functions in schema ``pgsluice``. Another database gets them for one transaction, in the
session's temporary schema, and keeps nothing.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pgsluice.schema.migrate import available

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from pgsluice.schema.entry import Definition

ObjectKey = tuple[str, int]
"""Which object of a database: its catalog (pg_class, …) and its number there."""

Objects = dict[ObjectKey, "Definition"]
"""Objects of a database, described."""

_FUNCTION: Final = re.compile(
    r"^CREATE OR REPLACE FUNCTION pgsluice\.(?:describe\w*|all_objects)\(.*?^\$\$;$", re.MULTILINE | re.DOTALL
)
_AS_TRIGGERS_DO: Final = "SET LOCAL quote_all_identifiers = on"
_ALL: Final = """
SELECT (SELECT relname FROM pg_catalog.pg_class WHERE oid = class), object::int8, definition
  FROM {schema}.all_objects(), {schema}.describe(class, object) AS definition
 WHERE definition IS NOT NULL"""


def objects_of_source(conn: psycopg.Connection[Any]) -> Objects:
    """The objects of a prepared source, as they are now."""
    with conn.transaction():
        conn.execute(_AS_TRIGGERS_DO)
        found = _objects(conn.execute(_ALL.format(schema="pgsluice")))
        conn.execute("SET LOCAL quote_all_identifiers = off")  # the caller's transaction goes on
    return found


def known_objects(conn: psycopg.Connection[Any]) -> Objects:
    """The objects of a prepared source as its event triggers saw them last, under the names of now."""
    return _objects(
        conn.execute("SELECT class::regclass::text, object::int8, definition FROM pgsluice.known_now()")
    )


def objects_of(conn: psycopg.Connection[Any]) -> Objects:
    """The objects of any database; leaves nothing there."""
    with conn.transaction(force_rollback=True):
        conn.execute(_AS_TRIGGERS_DO)
        conn.execute(_temporary_functions().encode())
        return _objects(conn.execute(_ALL.format(schema="pg_temp")))


@cache
def _temporary_functions() -> str:
    found = [each for migration in available() for each in _FUNCTION.findall(migration.text)]
    return "\n".join(found).replace("pgsluice.", "pg_temp.")


def _objects(rows: Iterable[Any]) -> Objects:
    return {(catalog, oid): definition for catalog, oid, definition in rows}
