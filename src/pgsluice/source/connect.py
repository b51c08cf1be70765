"""
Opening connections to the source, plain and for replication.

Every connection, the walsender's included, has the session settings that values are read under, and
every refusal is an error of ours that says what to do (:mod:`pgsluice.source.refusals`).
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import pq

from pgsluice.errors import SourceError, SourceUnreachableError, UnsupportedServerError
from pgsluice.source.address import parse_url, safe_url
from pgsluice.source.refusals import refusal, translate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Connection = psycopg.Connection[tuple[Any, ...]]
"""A connection whose rows are tuples."""

OLDEST_VERSION: Final = 140000
ANSWER_SECONDS: Final = 30.0  # for the short questions that are asked while connecting
CONNECT_TIMEOUT: Final = 10  # seconds; libpq's own default is to wait for ever

PINNED_SETTINGS: Final[Mapping[str, str]] = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "",  # regclass and friends print names by it
    "quote_all_identifiers": "off",
    "client_min_messages": "warning",  # that a publication is missing is only a warning of the server
}
"""What decides the text form of values, the same in snapshot, stream and catalog reads, and what is said."""

_PIN = "SELECT " + ", ".join(
    f"pg_catalog.set_config('{name}', '{value}', false)" for name, value in PINNED_SETTINGS.items()
)


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Which server this is."""

    system_id: str  # of the cluster; a restored copy keeps it, another cluster never has it
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
    given = {**parse_url(url), **parameters}
    given.setdefault("application_name", application_name)
    given["client_encoding"] = "UTF8"
    if "connect_timeout" not in given and "PGCONNECT_TIMEOUT" not in os.environ:
        given["connect_timeout"] = CONNECT_TIMEOUT
    if replication:
        given["replication"] = "database"
    try:
        conn: Connection = psycopg.connect(autocommit=autocommit, **given)
    except psycopg.Error as exc:
        raise refusal(exc, url, given) from exc
    try:
        with answering_within(conn, ANSWER_SECONDS):
            _pin(conn, url)
    except SourceError:
        conn.close()
        raise
    return conn


@contextmanager
def answering_within(conn: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """
    Hang up when the block takes longer, so that a blocked call ends with an error.

    A connection whose other end is gone without a word answers nothing for ever, and libpq waits.
    """
    timer = threading.Timer(seconds, _hang_up, (conn,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(conn: psycopg.Connection[Any]) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=socket.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def identify(conn: Connection) -> SourceIdentity:
    """Which server a connection, plain or for replication, leads to."""
    if conn.info.get_parameters().get("replication"):
        row = conn.execute("IDENTIFY_SYSTEM").fetchone()
    else:
        row = conn.execute(_IDENTIFY).fetchone()
    if row is None:
        raise SourceError("the server does not say which system it is")
    return SourceIdentity(str(row[0]), int(row[1]), conn.info.server_version, conn.info.dbname)


@contextmanager
def source_errors(url: str, doing: str) -> Iterator[None]:
    """Turn psycopg's errors inside the block into ours; ``doing`` completes "could not …"."""
    try:
        yield
    except psycopg.Error as exc:
        raise translate(exc, url, doing) from exc


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
    # By statement, not by the startup packet's options: these would replace the user's own (URL, PGOPTIONS,
    # service file), and what is set last wins over the settings of role and database as well.
    result = conn.pgconn.exec_(_PIN.encode())
    if result.status != pq.ExecStatus.TUPLES_OK:
        said = " ".join(result.get_error_message().split())
        if conn.pgconn.status == pq.ConnStatus.BAD:
            raise SourceUnreachableError(f"{safe_url(url)} closed the connection as it was opened: {said}")
        raise SourceError(f"{safe_url(url)} refused the session settings that values are read under: {said}")
