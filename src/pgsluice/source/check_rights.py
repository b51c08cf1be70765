"""Checks of the role: what it may do, and which rows it can't see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.errors import PoolerError, SourceError
from pgsluice.source.connect import connect
from pgsluice.source.finding import Finding, listed
from pgsluice.source.names import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from pgsluice.source.identity import SourceTable


def check_replication(conn: psycopg.Connection[Any], url: str) -> Iterator[Finding]:
    """Open a replication connection for real: that tells role, pg_hba.conf and poolers at once."""
    proxied = conn.info.backend_pid != _pid(conn)
    try:
        connect(url, replication=True).close()
    except PoolerError as exc:
        yield Finding("pooler", "error", exc.message, exc.remedy)
    except SourceError as exc:
        yield Finding("replication-connection", "error", exc.message, exc.remedy, {"error": exc.code})
    else:
        if proxied:
            yield Finding(
                "pooler",
                "warning",
                "a pooler or proxy stands before the server, though it lets replication through",
                "Use the address of the server itself where you can",
            )


def check_rights(
    conn: psycopg.Connection[Any],
    tables: Sequence[SourceTable],
    to_publish: Sequence[SourceTable],
) -> Iterator[Finding]:
    """
    Findings about what the role may do with the database and its tables.

    Args:
        tables: whose rows will be read.
        to_publish: what the list of a publication to be made will name.
    """
    role = quoted(conn.info.user)
    relids = [table.relid for table in tables]
    if not _scalar(conn, _MAY_PREPARE):
        database = quoted(conn.info.dbname)
        yield Finding(
            "create-right",
            "error",
            f"the role {role} may not create schema and publication in database {database}",
            f"GRANT CREATE ON DATABASE {database} TO {role};",
        )
    if unreadable := _names(conn, _UNREADABLE, relids):
        schemas = sorted({quoted(table.schema) for table in tables if table.qualified in unreadable})
        yield Finding(
            "select-right",
            "error",
            f"the role {role} may not read {listed(unreadable)}",
            " ".join(
                f"GRANT USAGE ON SCHEMA {s} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {role};"
                for s in schemas
            ),
            {"tables": unreadable},
        )
    if foreign := _names(conn, _NOT_OWNED, [table.relid for table in to_publish]):
        yield Finding(
            "ownership",
            "error",
            f"the role {role} does not own {listed(foreign)}, so it can't publish them",
            f"Let an administrator make the publication and name it with --publication; or: GRANT "
            f"{listed(sorted({quoted(t.owner) for t in to_publish if t.qualified in foreign}))} TO {role};",
            {"tables": foreign},
        )
    if hidden := _names(conn, _ROWS_HIDDEN, relids):
        yield Finding(
            "row-security",
            "error",
            f"row-level security hides rows of {listed(hidden)} from {role}: a copy would be incomplete",
            f"ALTER ROLE {role} BYPASSRLS;",
            {"tables": hidden},
        )


_MAY_PREPARE = """
    SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
        OR pg_catalog.to_regclass('pgsluice.pipeline') IS NOT NULL"""
_NAME = (
    "SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY(%s::oid[]) AND "
)
_UNREADABLE = (
    _NAME
    + """
    NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))
    ORDER BY 1"""
)
_NOT_OWNED = _NAME + "NOT pg_catalog.pg_has_role(c.relowner, 'USAGE') ORDER BY 1"
_ROWS_HIDDEN = _NAME + "pg_catalog.row_security_active(c.oid) ORDER BY 1"


def _names(conn: psycopg.Connection[Any], query: str, relids: list[int]) -> list[str]:
    return [row[0] for row in conn.execute(query, (relids,))]


def _scalar(conn: psycopg.Connection[Any], query: str) -> Any:
    row = conn.execute(query).fetchone()
    return row[0] if row else None


def _pid(conn: psycopg.Connection[Any]) -> int:
    return int(_scalar(conn, "SELECT pg_catalog.pg_backend_pid()"))
