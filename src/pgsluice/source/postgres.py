"""
A PostgreSQL database as a source: prepared, compared with what was prepared, and ready to be listened to.

The assembling place of this folder: publication and slot come from :mod:`pgsluice.source.install`, the
stream from :mod:`pgsluice.source.process`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.changelog.position import Lsn
from pgsluice.errors import NotInitializedError, SchemaBusyError, TablesDifferError
from pgsluice.postgres.session import (
    ANSWER_SECONDS,
    Connection,
    answering_within,
    database_identity,
    has_relation,
)
from pgsluice.source.connect import connect, source_errors, wal_position
from pgsluice.source.event_triggers import has_triggers
from pgsluice.source.identity import SourceTable, read_tables
from pgsluice.source.install import InitOptions, InitReport, init, refresh
from pgsluice.source.listener import Confirm, ListenerOptions, Origin
from pgsluice.source.records import PipelineRecord, read_record, require_pipeline
from pgsluice.source.selection import Keyless, Selection, choose, schema_only
from pgsluice.source.snapshot.tables import chosen_tables, published_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pgsluice.source.pgoutput.messages import Relation
    from pgsluice.source.snapshot.tables import CopiedTable

logger = structlog.get_logger(__name__)

_BUSY_TRIES: Final = 20  # some ten seconds
_BUSY_SECONDS: Final = 0.3


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
        schema_only_tables: patterns of tables of which a target gets the definition and no rows.
        init: prepare the database (schema, publication, slot) if it isn't yet.
        slot: a slot of your own; by default one is made.
        publication: a publication of your own; by default one is made and kept up to date.
        event_triggers: with ``init``: let event triggers tell of changes of the schema; needs a superuser.
        heartbeat: seconds between small messages that let the slot move on an idle database; 0 for none.
        origin: ``none`` leaves out changes that the source itself replicated from elsewhere.
    """

    def __init__(
        self,
        url: str = "",
        *,
        tables: Sequence[str] = ("*.*",),
        exclude_tables: Sequence[str] = (),
        schema_only_tables: Sequence[str] = (),
        schemas: Sequence[str] = (),
        all_tables: bool = False,
        keyless: Keyless = "leave_out",
        init: bool = False,
        upgrade: bool = False,
        slot: str | None = None,
        publication: str | None = None,
        failover: bool = False,
        event_triggers: bool = True,
        heartbeat: float = 0.0,
        origin: Origin = "any",
    ) -> None:
        self.url = url
        self.joined: tuple[str, ...] = ()  # tables that came into the publication when it was prepared
        self._told: set[str] = set()  # tables of which it was said that they are left out
        self._init = init
        self._upgrade = upgrade
        self._slot = slot
        self._publication = publication
        self._failover = failover
        self._event_triggers = event_triggers
        self._heartbeat = heartbeat
        self._origin: Origin = origin
        scope: str = "all" if all_tables else "schemas" if schemas else "list"
        self._selection = Selection(
            scope,  # type: ignore[arg-type]
            tuple(tables),
            tuple(exclude_tables),
            tuple(schemas),
            keyless,
            tuple(schema_only_tables),
        )

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
        self.joined = self._refresh_at_last(name)
        record = self._record(name)
        self._selection = record.selection
        return record

    def _refresh_at_last(self, name: str) -> tuple[str, ...]:
        """The same, when others hold locks for a moment."""
        for _ in range(_BUSY_TRIES - 1):
            try:
                return self.refresh(name)
            except SchemaBusyError as exc:
                logger.info("waiting to bring the publication up to date", reason=str(exc))
                time.sleep(_BUSY_SECONDS)
        return self.refresh(name)

    def refresh(self, name: str) -> tuple[str, ...]:
        """Bring a publication that we made up to date; gives the tables that joined it."""
        refreshed = refresh(self.url, name)
        for action in refreshed.actions:
            logger.info("publication kept up to date", change=action)
        for table in refreshed.foreign:
            logger.warning(
                "a new table is not in the stream: it belongs to another role",
                table=table,
                remedy="Run pgsluice init as its owner or as a superuser",
            )
        for table, reason in refreshed.left_out:
            self._say_left_out(table, reason)
        return refreshed.joined

    def _say_left_out(self, table: str, reason: str) -> None:
        """Once: it is asked again and again while a run goes on."""
        if table not in self._told:
            self._told.add(table)
            logger.warning(
                "table left out: its rows are not in the stream",
                table=table,
                reason=reason,
                remedy="give it a primary key, or set replication.keyless: full",
            )

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
                event_triggers=self._event_triggers,
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

    def check(self) -> None:
        """Raise when the server can't be reached or lets us not in."""
        self.database()

    def database(self) -> tuple[str, str] | None:
        """What tells the source from every other database; None when its role may not know."""
        with source_errors(self.url, "connect"), connect(self.url) as conn:
            return database_identity(conn)

    def chosen_tables(self, conn: Connection) -> list[CopiedTable]:
        """The tables that are asked for, those without a key too: a copy needs none."""
        plan = choose(read_tables(conn), self._selection, conn.info.server_version)
        left_out = [left.table for left in plan.left_out if not left.table.extension]
        return chosen_tables(conn, [table.relid for table in (*plan.published, *left_out)])

    def tables_of(self, conn: Connection, name: str) -> list[Relation]:
        """The tables of a pipeline: those of its stream, or those that are asked for before there is one."""
        record = read_record(conn, name) if has_relation(conn, "pgsluice", "pipeline") else None
        tables = published_tables(conn, record.publication) if record else self.chosen_tables(conn)
        return [table.relation for table in tables]

    def schema_only_tables(self, conn: Connection) -> list[int]:
        """The tables of which targets get the definition and no rows, by their numbers."""
        return [table.relid for table in schema_only(read_tables(conn), self._selection)]

    def tables_to_come(self, conn: Connection) -> list[SourceTable]:
        """The tables that are in the stream, or will be when the publication is brought up to date."""
        if self._selection.scope != "list":
            return []  # a publication of that kind is always up to date
        return list(choose(read_tables(conn), self._selection, conn.info.server_version).published)

    def published(self, name: str) -> tuple[list[CopiedTable], Lsn]:
        """The tables that are in a pipeline's stream now, and where that is."""
        with self.catalog() as conn:
            record = read_record(conn, name)
            tables = published_tables(conn, record.publication, record.joined) if record else []
            return tables, wal_position(conn)

    def notes_schema(self) -> bool:
        """Whether the stream has changes of the schema."""
        with self.catalog() as conn:
            return has_triggers(conn)

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

    def _report(self, report: InitReport) -> None:
        for action in report.actions:
            logger.info("prepared the source", action=action)
        for table, reason in report.left_out:
            self._say_left_out(table, reason)
        for warning in report.warnings:
            logger.warning(warning)
