"""
A point of the stream at which tables are copied: a snapshot, and the LSN that belongs to it.

Only the snapshot that a logical slot exports when it is made has an LSN: it sees every transaction whose
commit stands before it in the WAL, and no other. (A snapshot taken at any other moment may miss a commit
that is in the WAL already but waits for a synchronous standby.) So each point makes a temporary slot, takes
its snapshot over into a transaction of its own, and lets the slot go.
"""

from __future__ import annotations

import secrets
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from psycopg import sql

from pgsluice.changelog.position import Lsn
from pgsluice.errors import SourceError, SourceUnreachableError
from pgsluice.postgres.session import lift_limits
from pgsluice.source.connect import SourceIdentity, connect, identify, source_errors
from pgsluice.source.slot import CREATE_TIMEOUT, PLUGIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection


logger = structlog.get_logger(__name__)

_SAY_SECONDS: Final = 3.0
_WHO_WAITS: Final = (
    "See who holds one: SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL "
    "ORDER BY xact_start; and SELECT * FROM pg_prepared_xacts"
)


@dataclass(frozen=True, slots=True)
class Point:
    """A snapshot that is held open."""

    lsn: Lsn  # everything committed before is in the snapshot, everything after is in the stream
    snapshot: str  # for SET TRANSACTION SNAPSHOT
    server: SourceIdentity
    conn: Connection  # in the snapshot itself, for reading the catalog


@contextmanager
def hold_point(url: str) -> Iterator[Point]:
    """A point of now, for as long as the block runs."""
    with source_errors(url, "take a snapshot"), connect(url, application_name="pgsluice snapshot") as conn:
        lift_limits(conn)
        lsn, server, exported = _pinned(url, conn)
        yield Point(lsn, exported, server, conn)


def enter(conn: Connection, snapshot: str) -> None:
    """Begin a transaction in an exported snapshot."""
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        conn.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
    except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject) as exc:
        raise SourceUnreachableError("the snapshot is gone with the connection that held it") from exc


@contextmanager
def _saying_that_it_waits() -> Iterator[None]:
    """Say so when a snapshot takes long: people see nothing else of it."""
    said = threading.Timer(
        _SAY_SECONDS,
        lambda: logger.warning("a snapshot waits for transactions that are open", remedy=_WHO_WAITS),
    )
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()


def _pinned(url: str, conn: Connection) -> tuple[Lsn, SourceIdentity, str]:
    """Make a slot, and take its snapshot over before the next command on its connection ends it."""
    name = f"pgsluice_point_{secrets.token_hex(4)}"
    with connect(url, replication=True, application_name="pgsluice snapshot") as walsender:
        walsender.cursor_factory = psycopg.ClientCursor  # a walsender takes plain statements only
        server = identify(walsender)
        walsender.execute(f"SET statement_timeout = '{CREATE_TIMEOUT}s'")
        statement = sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL {} EXPORT_SNAPSHOT")
        try:
            with _saying_that_it_waits():
                made = walsender.execute(statement.format(sql.Identifier(name), sql.SQL(PLUGIN))).fetchone()
        except psycopg.errors.QueryCanceled as exc:
            raise SourceError(
                f"no snapshot in {CREATE_TIMEOUT} s: it waits for every transaction that is open now",
                remedy=_WHO_WAITS,
            ) from exc
        assert made is not None
        _, lsn, snapshot, _ = made
        enter(conn, snapshot)
        row = conn.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()
    assert row is not None
    return Lsn.parse(lsn), server, str(row[0])
