"""Checks of what is in the database: usable identities, encoding, and what is never in the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from pgsluice.errors import UnsafePublicationError
from pgsluice.source.event_triggers import has_triggers
from pgsluice.source.finding import Finding, listed
from pgsluice.source.selection import Plan, Selection, choose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgsluice.source.identity import SourceTable

_SAMPLE: Final = 10_000  # rows of a table that are looked at for bytes beyond ASCII


def check_plan(
    tables: Sequence[SourceTable], selection: Selection, version: int
) -> tuple[Plan | None, list[Finding]]:
    """What would be published, and findings about what would not or must not be."""
    try:
        plan = choose(tables, selection, version)
    except UnsafePublicationError as exc:
        return None, [Finding("unsafe-publication", "error", exc.message, exc.remedy, exc.fields)]
    findings = [
        Finding("identity", "warning", f"{left.table.qualified} is left out: {left.reason}",
                "Give it a primary key, not DEFERRABLE; or use --keyless full, which runs: "
                f"ALTER TABLE {left.table.in_sql} REPLICA IDENTITY FULL;",
                {"table": left.table.qualified})
        for left in plan.left_out if not left.table.extension
    ]  # fmt: skip
    findings += [Finding("pattern", "warning", words) for words in plan.warnings]
    if not plan.published:
        findings.append(Finding("no-tables", "warning", "no table would be published", "Check --tables"))
    return plan, findings


def check_existing_publication(tables: Sequence[SourceTable], published: set[int]) -> Iterator[Finding]:
    """Tables of a publication that somebody made, whose UPDATE and DELETE fail already."""
    for table in tables:
        if table.relid in published and table.kind == "r" and not table.usable:
            yield Finding(
                "identity",
                "warning",
                f"{table.qualified} is published without a usable identity ({table.problem}): "
                "its UPDATE fails",
                f"ALTER TABLE {table.in_sql} REPLICA IDENTITY FULL;",
                {"table": table.qualified},
            )


def check_encoding(conn: psycopg.Connection[Any], tables: Sequence[SourceTable]) -> Iterator[Finding]:
    """SQL_ASCII means that the server doesn't know what its bytes are; ASCII alone is safe."""
    if conn.info.parameter_status("server_encoding") != "SQL_ASCII":
        return
    odd = [table.qualified for table in tables if _has_other_bytes(conn, table)]
    if odd:
        yield Finding(
            "encoding",
            "error",
            f"the database is SQL_ASCII and {listed(odd)} holds bytes whose meaning nobody knows",
            "Move the data to a database with ENCODING 'UTF8': pg_dump, then load as the encoding they have",
            {"tables": odd},
        )
    else:
        yield Finding(
            "encoding",
            "warning",
            "the database is SQL_ASCII: text that is not ASCII would stop the pipeline",
            "Move the data to a database with ENCODING 'UTF8'",
        )


def check_never_streamed(conn: psycopg.Connection[Any]) -> Iterator[Finding]:
    """What logical replication never carries, as far as it is in use here."""
    row = conn.execute(_NEVER).fetchone()
    if row is None:
        return
    large_objects, unlogged, foreign, views, sequences, roles = row
    if large_objects:
        yield Finding(
            "large-objects", "warning", "the database has large objects, which are never in the stream",
            "Move them to bytea columns, or copy them another way",
        )  # fmt: skip
    if unlogged:
        yield Finding(
            "unlogged-tables", "warning", f"unlogged tables are never in the stream: {listed(unlogged)}",
            f"ALTER TABLE {unlogged[0]} SET LOGGED;", {"tables": unlogged},
        )  # fmt: skip
    if foreign:
        yield Finding(
            "foreign-tables", "warning", f"foreign tables are never in the stream: {listed(foreign)}",
            "Replicate them from the server that holds them", {"tables": foreign},
        )  # fmt: skip
    if views:
        yield Finding(
            "materialized-views", "info", f"materialized views are not in the stream: {listed(views)}",
            "A PostgreSQL target that follows the schema refreshes them with the source; else do it there",
            {"views": views},
        )  # fmt: skip
    if sequences:
        yield Finding(
            "sequences", "info", f"{sequences} sequences: their positions are not in the stream",
            "A PostgreSQL target follows them by itself; elsewhere set them before you write there",
            {"count": sequences},
        )  # fmt: skip
    if roles:
        yield Finding(
            "roles", "info", f"roles and their memberships are not in the stream: {listed(roles)}",
            "They belong to the whole server: pg_dumpall --roles-only copies them", {"roles": roles},
        )  # fmt: skip


def check_event_triggers(conn: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Whether changes of the schema can be noted."""
    row = conn.execute("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user").fetchone()
    if not has_triggers(conn) and row != (True,):
        yield Finding(
            "event-triggers", "info",
            "no event triggers, which a superuser has to make: of the schema, only columns are followed",
            "Run pgsluice init once as a superuser",
        )  # fmt: skip


# pg_largeobject_metadata may be read by all; pg_largeobject itself may not. Roles count when they own
# something here: pg_shdepend has the owners of every object of this database but the first superuser's.
_NEVER = """
    WITH own AS (
        SELECT n.nspname || '.' || c.relname AS name, c.relkind, c.relpersistence
          FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname NOT IN ('information_schema', 'pgsluice') AND n.nspname NOT LIKE 'pg\\_%'
    )
    SELECT EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata),
           (SELECT array_agg(name ORDER BY name) FROM own WHERE relkind = 'r' AND relpersistence = 'u'),
           (SELECT array_agg(name ORDER BY name) FROM own WHERE relkind = 'f'),
           (SELECT array_agg(name ORDER BY name) FROM own WHERE relkind = 'm'),
           (SELECT count(*) FROM own WHERE relkind = 'S'),
           (SELECT array_agg(DISTINCT r.rolname::text)
              FROM pg_catalog.pg_shdepend d JOIN pg_catalog.pg_roles r ON r.oid = d.refobjid
             WHERE d.dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
               AND d.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass AND d.deptype = 'o'
               AND r.rolname <> current_user AND r.rolname NOT LIKE 'pg\\_%')"""


def _has_other_bytes(conn: psycopg.Connection[Any], table: SourceTable) -> bool:
    query = sql.SQL(
        'SELECT EXISTS (SELECT FROM (SELECT t::text AS r FROM ONLY {} t LIMIT {}) s WHERE r COLLATE "C" ~ {})'
    ).format(sql.Identifier(table.schema, table.name), sql.Literal(_SAMPLE), sql.Literal("[\\x80-\\xff]"))
    try:
        row = conn.execute(query).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return False  # the check of rights names this table
    return bool(row and row[0])
