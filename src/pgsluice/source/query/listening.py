"""
The listener of a query that was given a URL: started when none runs, watched, and left behind.

It is a process of its own with a lease: it outlives the query, so that a restart finds it running, and
ends by itself when no reader has been seen for a while. The slot keeps what comes later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.changelog.lock import LogLock
from pgsluice.schema.migrate import installed_version
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.listener import ListenerOptions
from pgsluice.source.postgres import LogOptions, PostgresSource
from pgsluice.source.process import ListenerProcess, listening_process, prepare_directory
from pgsluice.source.query.published import published_table
from pgsluice.source.records import Names, read_record, require_pipeline, resolve_names

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.changelog.position import Lsn
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import TableVersion
    from pgsluice.source.query.options import ReadOptions
    from pgsluice.source.relations import Catalog

_START_SECONDS: Final = 60.0
_TURN_SECONDS: Final = 90.0  # to wait while another query starts the listener


class SourceListener:
    """The source's side of a query."""

    def __init__(self, options: ReadOptions) -> None:
        assert options.url is not None
        self._options = options
        self._source = PostgresSource(options.url)
        self._process: ListenerProcess | None = None

    @property
    def catalog(self) -> Catalog:
        """Opens a short connection for catalog look-ups."""
        return self._source.catalog

    def current_lsn(self) -> Lsn:
        """Where the source's WAL ends now."""
        return self._source.current_lsn()

    def published(self, table: tuple[str, str]) -> TableVersion:
        """The table as the catalog has it."""
        with self._source.catalog() as connection:
            return published_table(connection, self._names(connection).publication, table)

    def ensure(self) -> None:
        """Return when a listener streams into the log; start one when none does."""
        log = self._options.log
        if listening_process(log) is not None:
            return
        prepare_directory(log)
        turn = LogLock(log / "listener.start")
        turn.acquire(wait=_TURN_SECONDS)
        try:
            if listening_process(log) is None:
                self._start(log)
        finally:
            turn.release()

    def check(self) -> None:
        """Bring a listener that was killed back; raise what ended it for good."""
        if listening_process(self._options.log) is not None:
            return
        if self._process is not None:
            self._process.check()
            self._process.stop()
            self._process = None
        self.ensure()

    def _start(self, log: Path) -> None:
        process = ListenerProcess(self._listener_options(), log_level="warn", log_file=log / "listener.log")
        process.start()
        self._process = process
        process.wait_until_streaming(_START_SECONDS)

    def _listener_options(self) -> ListenerOptions:
        options = self._options
        assert options.url is not None
        pipeline: str | None = None  # a slot and a publication of the user's own, used as they are
        with source_errors(options.url, "read the pipeline's record"), connect(options.url) as connection:
            names = self._names(connection)
            known = installed_version(connection) is not None and read_record(connection, options.name)
            if known or not (options.slot and options.publication):
                pipeline = require_pipeline(connection, options.name).name
        if pipeline is not None:
            self._source.prepare(pipeline)
        bounds = LogOptions()
        return ListenerOptions(
            options.url,
            names.slot,
            (names.publication,),
            options.log,
            max_bytes=bounds.max_bytes,
            pipeline=pipeline,
            retention=bounds.retention,
            confirm=bounds.confirm,
            lease=options.lease,
        )

    def _names(self, connection: Connection) -> Names:
        return resolve_names(connection, self._options.name, self._options.slot, self._options.publication)
