"""A table as its Relation message will describe it, read from the catalog before the first row has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgsluice.errors import ConfigError
from pgsluice.schema.catalog import describe_types
from pgsluice.schema.pgtypes import resolve
from pgsluice.schema.table import Column, TableVersion

if TYPE_CHECKING:
    import psycopg

# Which columns are published: the view's list from 15 on, and from 18 on generated ones may be in it.
_COLUMNS: Final = """
    SELECT a.attrelid::int8, a.attname, a.atttypid::int8, a.atttypmod
      FROM pg_catalog.pg_publication_tables p
      JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
      JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
      JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
     WHERE p.pubname = %(publication)s AND p.schemaname = %(schema)s AND p.tablename = %(table)s
       AND a.attnum > 0 AND NOT a.attisdropped
       AND (a.attgenerated = '' OR %(server)s >= 180000)
       AND coalesce(pg_catalog.to_jsonb(p) -> 'attnames' ? a.attname::text, true)
     ORDER BY a.attnum"""


def published_table(
    connection: psycopg.Connection[Any], publication: str, table: tuple[str, str]
) -> TableVersion:
    """The table's columns in the stream; number 0, for no row has this version yet."""
    schema, name = table
    found = connection.execute(
        _COLUMNS,
        {
            "publication": publication,
            "schema": schema,
            "table": name,
            "server": connection.info.server_version,
        },
    ).fetchall()
    if not found:
        raise ConfigError(
            f"publication {publication} has no table {schema}.{name}, so no row of it would ever come",
            remedy="Publish it with pgsluice init --tables, or mend the option table "
            "(rows of a partitioned table come under the names of its partitions)",
            table=f"{schema}.{name}",
        )
    types = describe_types(connection, [type_oid for _, _, type_oid, _ in found])
    columns = tuple(
        Column(column, resolve(type_oid, typmod, types), in_identity=False)
        for _, column, type_oid, typmod in found
    )
    return TableVersion(0, found[0][0], schema, name, "d", columns)
