"""
Opening connections to the source, plain and for replication.

Every connection, the walsender's included, has the session settings that values are read under, and
every refusal is an error of ours that says what to do (:mod:`pgsluice.source.refusals`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from pgsluice.changelog.position import Lsn
from pgsluice.errors import SourceError, SourceUnreachableError, UnsupportedServerError
from pgsluice.postgres.address import safe_url
from pgsluice.postgres.session import (
    OLDEST_VERSION,
    Connection,
    connection_parameters,
    is_broken,
    open_session,
    pin,
)
from pgsluice.source.refusals import refusal, translate

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Which server this is."""

    system_id: str  # of the cluster, and the database's there: a restored copy keeps both, no other has them
    timeline: int
    version: int  # as server_version_num: 180004
    database: str


def connect(
    url: str,
    *,
    replication: bool = False,
    application_name: str = "pgsluice",
    autocommit: bool = True,
    **parameters: Any,
) -> Connection:
    """
    Open a connection, with the pinned settings in force.

    Args:
        url: anything that libpq takes; empty means the PG* variables.
        replication: a walsender of that database instead of a plain session.
        parameters: further libpq parameters, which win over the URL's.
    """
    if replication:
        parameters["replication"] = "database"
    given = connection_parameters(url, application_name=application_name, **parameters)
    return open_session(
        given,
        lambda exc: refusal(exc, url, given),
        lambda conn: _pin(conn, url),
        autocommit=autocommit,
    )


def identify(conn: Connection) -> SourceIdentity:
    """Which server a connection, plain or for replication, leads to."""
    if conn.info.get_parameters().get("replication"):
        row = conn.execute("IDENTIFY_SYSTEM").fetchone()
    else:
        row = conn.execute(_IDENTIFY).fetchone()
    number = conn.execute(_DATABASE).fetchone()
    if row is None or number is None:
        raise SourceError("the server does not say which system it is")
    system_id = f"{row[0]}/{number[0]}"
    return SourceIdentity(system_id, int(row[1]), conn.info.server_version, conn.info.dbname)


@contextmanager
def source_errors(url: str, doing: str) -> Iterator[None]:
    """Turn psycopg's errors inside the block into ours; ``doing`` completes "could not …"."""
    try:
        yield
    except psycopg.Error as exc:
        raise translate(exc, url, doing) from exc


_DATABASE = "SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
# The file that WAL goes to names the timeline of now; the control file's is that of the last checkpoint.
_IDENTIFY = """
    SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()),
           CASE WHEN pg_catalog.pg_is_in_recovery()
                THEN (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())
                ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int
           END"""


def _pin(conn: Connection, url: str) -> None:
    if conn.info.server_version < OLDEST_VERSION:
        raise UnsupportedServerError(
            f"{safe_url(url)} runs PostgreSQL {conn.info.server_version // 10000}",
            remedy=f"pgsluice needs {OLDEST_VERSION // 10000} or newer",
        )
    said = pin(conn)
    if said is not None:
        if is_broken(conn):
            raise SourceUnreachableError(f"{safe_url(url)} closed the connection as it was opened: {said}")
        raise SourceError(f"{safe_url(url)} refused the session settings that values are read under: {said}")


def wal_position(conn: Connection) -> Lsn:
    """The end of what the server has written."""
    row = conn.execute("SELECT pg_catalog.pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(row[0])
