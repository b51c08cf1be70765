"""
A PostgreSQL database as a source: prepared, compared with what was prepared, and ready to be listened to.

The assembling place of this folder: publication and slot come from :mod:`pgsluice.source.install`, the
stream from :mod:`pgsluice.source.process`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pgsluice.changelog.position import Lsn
from pgsluice.errors import NotInitializedError, TablesDifferError
from pgsluice.source.connect import ANSWER_SECONDS, Connection, answering_within, connect, source_errors
from pgsluice.source.install import InitOptions, InitReport, init, refresh
from pgsluice.source.listener import Confirm, ListenerOptions, Origin
from pgsluice.source.records import PipelineRecord, require_pipeline
from pgsluice.source.selection import Keyless, Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The change log's bounds."""

    max_bytes: int = 10 << 30
    retention: float = 0.0  # seconds
    confirm: Confirm = "log"


class PostgresSource:
    """
    Changes of a PostgreSQL database, from a replication slot.

    Args:
        url: anything that libpq takes; empty means the PG* variables.
        tables: patterns of the tables to publish; with ``init``.
        init: prepare the database (schema, publication, slot) if it isn't yet.
        slot: a slot of your own; by default one is made.
        publication: a publication of your own; by default one is made and kept up to date.
        heartbeat: seconds between small messages that let the slot move on an idle database; 0 for none.
        origin: ``none`` leaves out changes that the source itself replicated from elsewhere.
    """

    def __init__(
        self,
        url: str = "",
        *,
        tables: Sequence[str] = ("*.*",),
        exclude_tables: Sequence[str] = (),
        schemas: Sequence[str] = (),
        all_tables: bool = False,
        keyless: Keyless = "leave_out",
        init: bool = False,
        upgrade: bool = False,
        slot: str | None = None,
        publication: str | None = None,
        failover: bool = False,
        heartbeat: float = 0.0,
        origin: Origin = "any",
    ) -> None:
        self.url = url
        self._init = init
        self._upgrade = upgrade
        self._slot = slot
        self._publication = publication
        self._failover = failover
        self._heartbeat = heartbeat
        self._origin: Origin = origin
        scope: str = "all" if all_tables else "schemas" if schemas else "list"
        self._selection = Selection(scope, tuple(tables), tuple(exclude_tables), tuple(schemas), keyless)  # type: ignore[arg-type]

    def prepare(self, name: str) -> PipelineRecord:
        """Make or compare what a pipeline needs on the server; gives its record there."""
        try:
            record = self._record(name)  # a publication that others have changed is found before we change it
        except NotInitializedError:
            if not self._init:
                raise
            self._report(self.init(name))
        else:
            self._agree_on_tables(record)
        for done in refresh(self.url, name):
            logger.info("publication kept up to date", change=done)
            if done.startswith("add"):
                logger.warning("a table joined now: rows that it had before are not carried", change=done)
        return self._record(name)

    def _agree_on_tables(self, record: PipelineRecord) -> None:
        """Never carry a table that was just excluded: what is asked for differs from what was prepared."""
        asked = self._selection
        if asked in (Selection(), record.selection) or not record.publication_made:
            return
        if not self._init:
            raise TablesDifferError(
                f"pipeline {record.name} was prepared with other tables than those asked for now",
                remedy="Run pgsluice init with the new ones, or add --init; or leave the tables away here",
                prepared=str(record.selection.as_dict()),
            )
        self._report(self.init(record.name))

    def _record(self, name: str) -> PipelineRecord:
        with source_errors(self.url, "read the pipeline's record"), connect(self.url) as connection:
            return require_pipeline(connection, name)

    def init(self, name: str) -> InitReport:
        """Prepare the database; running it again changes nothing."""
        return init(
            self.url,
            InitOptions(
                name=name,
                slot=self._slot,
                publication=self._publication,
                selection=self._selection,
                failover=self._failover,
                upgrade=self._upgrade,
            ),
        )

    def listener_options(self, record: PipelineRecord, log: Path, options: LogOptions) -> ListenerOptions:
        """What the listener has to know."""
        return ListenerOptions(
            self.url,
            record.slot,
            (record.publication,),
            log,
            max_bytes=options.max_bytes,
            pipeline=record.name,
            retention=options.retention,
            confirm=options.confirm,
            heartbeat=self._heartbeat,
            origin=self._origin,
        )

    def current_lsn(self) -> Lsn:
        """Where the source's WAL ends now."""
        with source_errors(self.url, "read the WAL position"), connect(self.url) as connection:
            row = connection.execute("SELECT pg_catalog.pg_current_wal_lsn()::text").fetchone()
            assert row is not None
            return Lsn.parse(row[0])

    @contextmanager
    def catalog(self) -> Iterator[Connection]:
        """A short connection for catalog look-ups."""
        with (
            source_errors(self.url, "read the catalog"),
            connect(self.url) as connection,
            answering_within(connection, ANSWER_SECONDS),
        ):
            yield connection

    @staticmethod
    def _report(report: InitReport) -> None:
        for action in report.actions:
            logger.info("prepared the source", action=action)
        for table, reason in report.left_out:
            logger.warning("table left out", table=table, reason=reason)
        for warning in report.warnings:
            logger.warning(warning)
