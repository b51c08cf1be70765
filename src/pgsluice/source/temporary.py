"""
A log for a short look: filled from a temporary slot in a temporary directory, gone with its user.

The server itself drops a temporary slot with its connection. A publication has no such form: one that a
killed process left behind is dropped by the next look.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from pgsluice.changelog.lock import LogLock
from pgsluice.changelog.log import LogWriter
from pgsluice.changelog.segment import LogMeta, read_meta
from pgsluice.errors import SluiceError, SourceError
from pgsluice.source import replication
from pgsluice.source.check_server import check_server
from pgsluice.source.connect import connect, identify, source_errors
from pgsluice.source.identity import read_tables
from pgsluice.source.listener import Listener, ListenerOptions
from pgsluice.source.preflight import raise_first_error
from pgsluice.source.publication import create_publication
from pgsluice.source.selection import Selection, choose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection
    from pgsluice.source.finding import Finding
    from pgsluice.source.replication import ReplicationStream

_PREFIX: Final = "pgsluice_tail_"
_MAX_BYTES: Final = 1 << 30


class TemporaryLog:
    """A running look: where its log is, and what ended it."""

    def __init__(self, directory: Path, listener: Listener) -> None:
        self.directory = directory
        self._listener = listener
        self._error: SluiceError | None = None
        self._thread = threading.Thread(target=self._run, name="temporary-listener", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._listener.run()
        except SluiceError as exc:
            self._error = exc

    def check(self) -> None:
        """Raise what ended the stream."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the stream."""
        self._listener.stop()
        self._thread.join()
        self._listener.close()

    def wait_until_streaming(self) -> None:
        """Return when the log is there."""
        while read_meta(self.directory) is None:
            self.check()
            self._thread.join(0.02)


@contextlib.contextmanager
def temporary_log(
    url: str, selection: Selection | None, publication: str | None = None
) -> Iterator[TemporaryLog]:
    """Changes from now on, for as long as the block runs."""
    name = _PREFIX + secrets.token_hex(4)
    selection = selection or Selection()
    with source_errors(url, "look at the stream"), connect(url) as connection:
        raise_first_error(_obstacles(connection, publication))
        if publication is None:
            # Ours for as long as this connection lives: another look that begins now lets it alone.
            connection.execute("SELECT pg_catalog.pg_advisory_lock(hashtextextended(%s, 0))", (name,))
            _drop_orphans(connection)
            plan = choose(read_tables(connection), selection, connection.info.server_version)
            create_publication(connection, name, selection, plan.entries)
        try:
            with (
                tempfile.TemporaryDirectory(prefix="pgsluice-tail-") as directory,
                _listening(url, name, publication or name, Path(directory)) as log,
            ):
                yield log
        finally:
            if publication is None:
                _drop(connection, name)


def _obstacles(connection: Connection, publication: str | None) -> list[Finding]:
    """What of the server is in the way; a standby only where a publication would have to be made."""
    found = check_server(connection, slot=None, failover=False)
    return [finding for finding in found if publication is None or finding.code != "standby"]


@contextlib.contextmanager
def _listening(url: str, slot: str, publication: str, directory: Path) -> Iterator[TemporaryLog]:
    lock = LogLock(directory / "lock")
    lock.acquire()
    options = ListenerOptions(url, slot, (publication,), directory, max_bytes=_MAX_BYTES)
    log = TemporaryLog(directory, Listener(options, lock, _open_temporary))
    try:
        log.wait_until_streaming()
        yield log
    finally:
        log.stop()
        lock.release()


def _open_temporary(
    options: ListenerOptions, writer: LogWriter | None
) -> tuple[ReplicationStream, LogWriter]:
    if writer is not None:
        raise SourceError("the connection was lost, and its temporary slot with it", remedy="Start again")
    connection = connect(options.url, replication=True, application_name="pgsluice tail")
    connection.cursor_factory = psycopg.ClientCursor
    with source_errors(options.url, "make a temporary slot"):
        server = identify(connection)
        statement = sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT")
        made = connection.execute(statement.format(sql.Identifier(options.slot))).fetchone()
    assert made is not None
    meta = LogMeta(server.system_id, server.timeline, options.slot, ",".join(options.publications), made[1])
    writer = LogWriter(options.log, meta)
    return replication.start(connection, options.slot, options.publications, writer.end), writer


def _drop_orphans(connection: Connection) -> None:
    """Publications of looks whose slot and connection are gone: their process was killed."""
    left = connection.execute(
        "SELECT pubname FROM pg_catalog.pg_publication p WHERE starts_with(pubname, %s) AND NOT EXISTS"
        " (SELECT FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = p.pubname)"
        " AND pg_catalog.pg_has_role(p.pubowner, 'USAGE')"
        " AND pg_catalog.pg_try_advisory_xact_lock(hashtextextended(pubname, 0))",
        (_PREFIX,),
    ).fetchall()
    for (name,) in left:
        _drop(connection, str(name))


def _drop(connection: Connection, name: str) -> None:
    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))
