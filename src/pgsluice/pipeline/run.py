"""
A pipeline: one source, one log, one loop per sink. Read top to bottom, it is what ``pgsluice run`` does.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import structlog

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn, Progress
from pgsluice.errors import ConfigError, SourceError, TargetError, TargetUnavailableError
from pgsluice.modifiers.chain import Chain
from pgsluice.observability.logs import configure_for_library
from pgsluice.pipeline.batch import remove_leftovers
from pgsluice.pipeline.copy import CopySource, TableCopy
from pgsluice.pipeline.intake import BatchOptions
from pgsluice.pipeline.loop import SinkLoop
from pgsluice.pipeline.loop_facts import LoopFacts
from pgsluice.pipeline.reload import Reloading
from pgsluice.pipeline.schema_versions import Acknowledgements
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.pipeline.trouble import TroubleNote
from pgsluice.pipeline.unidentified import UnidentifiedNote
from pgsluice.schema.renames import Renames
from pgsluice.schema.store import SchemaStore
from pgsluice.sinks.base import SinkContext
from pgsluice.source.names import DEFAULT_PIPELINE
from pgsluice.source.postgres import LogOptions, PostgresSource
from pgsluice.source.process import ListenerProcess, prepare_directory
from pgsluice.source.snapshot.tables import published_tables
from pgsluice.state.dead_letter import LetterBook
from pgsluice.state.requests import Requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgsluice.pipeline.config.targets import OnError
    from pgsluice.postgres.session import Connection
    from pgsluice.sinks.base import Sink
    from pgsluice.source.records import PipelineRecord

logger = structlog.get_logger(__name__)


Mode = Literal["snapshot_and_replication", "replication", "snapshot"]
"""Copy the tables into a new sink, then stream; only what changes from the slot on; or copy and end."""

STATE_HOME: Final = "~/.pgsluice"
_START_SECONDS: Final = 60.0  # for the listener to connect and stream; retries included
_WATCH_SECONDS: Final = 0.05
_RESTART_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 5.0  # between looks at the publication, and acknowledgements


class Pipeline:
    """
    Carries the changes of a source to one or more sinks.

    Args:
        source: where changes come from.
        sinks: one sink, or several by name; each goes at its own pace.
        name: of the pipeline; the record on the source and the progress in targets are kept under it.
        state_dir: of this pipeline alone; by default ``~/.pgsluice/<name>``.
        chain: what happens to rows on their way.
        check: raises when the source is not as the chain needs it; asked before anything is made.
        load_again: gives another chain, checked, when :meth:`reload` asks for it.
        wanted: says which tables go on, by schema and name.
        renames: what tables are called in the targets; for all of them, or by name of the sink.
        mode: whether tables are copied into a new sink before its stream begins.
        on_error: what becomes of a row that a target refuses; for all sinks, or by name.
    """

    def __init__(
        self,
        source: PostgresSource,
        sinks: Sink | Mapping[str, Sink],
        *,
        name: str = DEFAULT_PIPELINE,
        state_dir: str | Path | None = None,
        log_dir: Path | None = None,
        log: LogOptions | None = None,
        batch: BatchOptions | Mapping[str, BatchOptions] | None = None,
        chain: Chain | None = None,
        check: Callable[[PostgresSource, Callable[[], SparkSession]], None] | None = None,
        load_again: Callable[[PostgresSource, Callable[[], SparkSession]], Chain] | None = None,
        wanted: Callable[[str, str], bool] | None = None,
        renames: Renames | Mapping[str, Renames] | None = None,
        mode: Mode = "snapshot_and_replication",
        on_error: OnError | Mapping[str, OnError] = "stop",
        spark: SparkOptions | None = None,
        listener_logs: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = source
        self._sinks = dict(sinks) if isinstance(sinks, Mapping) else {"target": sinks}
        self._name = name
        self.state_dir = Path(state_dir or Path(STATE_HOME) / name).expanduser()
        self.log_dir = log_dir or self.state_dir / "log"
        self._log = log or LogOptions()
        self._batch = batch or BatchOptions()
        self._chain = Chain() if chain is None else chain
        self._check = check
        self._wanted = wanted
        self._renames = renames or Renames()
        self._mode = mode
        self._on_error = on_error
        self._spark = LazySpark(spark or SparkOptions())
        self._listener_logs = dict(listener_logs or {})
        again = (lambda: load_again(source, self._spark.child)) if load_again is not None else None
        self._reloading = Reloading(self.state_dir, self._chain, again)
        self._stopping = threading.Event()
        self._looked_at = 0.0
        self._schema_changes = 0  # up to which the publication was looked at
        self._acks = Acknowledgements(source, name, self.log_dir)
        self.loops: dict[str, SinkLoop] = {}
        self._copied: dict[str, LoopFacts] = {}  # of a snapshot, which has no loops

    @property
    def facts(self) -> dict[str, LoopFacts]:
        """How far each sink is, as soon as it is opened; others may look while it runs."""
        return {name: loop.facts for name, loop in list(self.loops.items())} or dict(self._copied)

    def run(self, *, once: bool = False) -> bool:
        """
        Stream until :meth:`stop`; with ``once`` until every sink holds what the source had at the start.

        Returns when every running batch is finished and its progress kept; False if ``once`` was stopped
        before that.
        """
        configure_for_library()
        self._spark.check()
        for name, sink in self._sinks.items():
            self._require_elsewhere(name, sink)
        if self._check is not None:
            self._check(self._source, self._spark.child)
        if self._mode == "snapshot":
            with _writable(self.state_dir, self.log_dir):
                self._source.check()
            return self._snapshot()
        with _writable(self.state_dir, self.log_dir):
            record = self._source.prepare(self._name)
        if self._mode == "replication":
            for table in self._source.joined:
                logger.warning("a table joined now: rows that it had before are not carried", table=table)
        listener = ListenerProcess(
            self._source.listener_options(record, self.log_dir, self._log), **self._listener_logs
        )
        listener.start()
        try:
            listener.wait_until_streaming(_START_SECONDS)
            remove_leftovers(self.state_dir)  # the log's lock is ours now, so no other run is alive
            self._open_sinks(record, once=once)
            if once:
                self.finish_at(self._source.current_lsn())
            for loop in self.loops.values():
                loop.start()
            with self._reloading.listening():
                self._watch(listener)
            if self._stopping.is_set():
                logger.info("stopping when the running batch is finished; a second signal stops at once")
            self._stop_loops()
            for name, loop in self.loops.items():
                logger.info(
                    "sink at rest", sink=name, changes=loop.facts.changes, position=str(loop.facts.position)
                )
            self._acknowledge_schema()
        finally:
            self._stop_loops()
            listener.stop()
            self._spark.stop()
        self._raise_errors()  # also what went wrong while the loops finished their last batch
        return not once or (bool(self.loops) and all(loop.finished for loop in self.loops.values()))

    def stop(self) -> None:
        """Ask a running pipeline to finish; safe in a signal handler."""
        self._stopping.set()

    def reload(self) -> None:
        """Ask a running pipeline to take its modifiers anew; safe in a signal handler."""
        self._reloading.ask()

    def finish_at(self, lsn: Lsn) -> None:
        """Ask a running pipeline to end once every sink holds everything up to ``lsn``."""
        for loop in self.loops.values():
            loop.stop_at(lsn)

    def _open_sinks(self, record: PipelineRecord, *, once: bool) -> None:
        notes_schema = self._source.notes_schema()
        for name, sink in self._sinks.items():
            loop = SinkLoop(
                name,
                sink,
                log=self.log_dir,
                context=SinkContext(self._name, self.state_dir, notes_schema=notes_schema),
                chain=self._chain,
                spark=self._spark,
                catalog=self._source.catalog,
                wanted=lambda version: self._is_wanted(version.schema, version.name),
                options=self._batch if isinstance(self._batch, BatchOptions) else self._batch[name],
                copy_from=self._copy_from(record),
                copies_first=self._mode != "replication",
                requests=Requests(self.state_dir),
                letters=LetterBook(self.state_dir),
                on_error=self._on_error if isinstance(self._on_error, str) else self._on_error[name],
                renames=self._renames_of(name),
            )
            self.loops[name] = loop
            try:
                held = loop.open()
            except TargetError as exc:
                if once or not exc.transient or not self._has_run(name):
                    raise
                loop.open_later(exc)
                continue
            logger.info("sink opened", sink=name, position=str(held or "new"))
            if held is None and self._mode == "replication":
                loop.require_log_since(record.slot_lsn)

    def _has_run(self, sink: str) -> bool:
        """Whether the log is held for a sink since an earlier run."""
        return any(consumer.name == sink for consumer in Consumers(self.log_dir).all())

    def _copy_from(self, record: PipelineRecord) -> CopySource:
        return CopySource(
            self._source.url,
            lambda conn: published_tables(conn, record.publication, record.joined),
            self._is_wanted,
            lambda conn: self._defined_tables(record, conn),
            lists_tables=record.selection.scope == "list",
            listed=record.selection.matcher if _is_ours(record) else None,
        )

    def _defined_tables(self, record: PipelineRecord, conn: Connection) -> list[int]:
        """Tables that come without rows: for good, or until the publication has them."""
        to_come = self._source.tables_to_come(conn) if record.publication_made else []
        wanted = [table.relid for table in to_come if self._is_wanted(table.schema, table.name)]
        return [*self._source.schema_only_tables(conn), *wanted]

    def _require_elsewhere(self, name: str, sink: Sink) -> None:
        """Refuse a target that is the source: rows would be written over themselves, again and again."""
        database = getattr(sink, "database", None)
        if database is None or self._renames_of(name):
            return
        try:
            found = database()
        except TargetUnavailableError:  # the source answers, or the run ends there
            if not self._has_run(name):
                raise
            return
        if found is not None and found == self._source.database():
            raise ConfigError(
                f"target {name!r} is the source itself: database {found[1]} of system {found[0]}",
                remedy="Give another database; or other names, with schema_map or tables of the target",
            )

    def _renames_of(self, sink: str) -> Renames:
        return self._renames if isinstance(self._renames, Renames) else self._renames.get(sink, Renames())

    def _is_wanted(self, schema: str, table: str) -> bool:
        return self._wanted is None or self._wanted(schema, table)

    def _snapshot(self) -> bool:
        """Copy the tables into every sink and end: no slot is made, and nothing stays on the source."""
        source = CopySource(
            self._source.url,
            self._source.chosen_tables,
            self._is_wanted,
            self._source.schema_only_tables,
        )
        store = SchemaStore(self.log_dir / "schema.db")
        try:
            return all(self._copy_into(name, source, store) for name in self._sinks)
        finally:
            store.close()
            self._spark.stop()

    def _copy_into(self, name: str, source: CopySource, store: SchemaStore) -> bool:
        sink = self._sinks[name]
        facts = LoopFacts(
            note=TroubleNote(self.state_dir, name), unidentified=UnidentifiedNote(self.state_dir, name)
        )
        copy = TableCopy(
            name,
            sink,
            source,
            store=store,
            chain=self._chain,
            renames=self._renames_of(name),
            spark=self._spark.child,
            scratch=self.state_dir,
            stopping=self._stopping,
            facts=facts,
        )
        token = sink.open(SinkContext(self._name, self.state_dir))
        self._copied[name] = facts
        try:
            if copy.is_needed(Progress.decode(token).copies if token else None):
                return copy.run(token) is not None
            logger.warning(
                "nothing was copied: the target holds these tables of an earlier copy",
                sink=name,
                remedy="To copy again, begin with an empty target; pgsluice run copies, then follows changes",
            )
            return True
        finally:
            facts.ended = True
            sink.close()

    def _watch(self, listener: ListenerProcess) -> None:
        """Wait for the end; bring a killed listener back, and pass on what stopped a loop."""
        while not self._stopping.wait(_WATCH_SECONDS):
            self._raise_errors()
            self._reloading.tend()
            if not any(loop.is_alive() for loop in self.loops.values()):
                return
            if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
                self._looked_at = time.monotonic()
                self._offer_tables()
                self._acknowledge_schema()
            if not listener.check():
                logger.warning("listener ended, starting it again")
                time.sleep(_RESTART_SECONDS)
                listener.start()

    def _offer_tables(self) -> None:
        """Let the loops hear of tables that have come into the publication."""
        changed = sum(loop.facts.schema_changes for loop in self.loops.values())
        try:
            if changed != self._schema_changes:  # there may be new tables
                self._source.refresh(self._name)
            tables, seen_at = self._source.published(self._name)
        except SourceError as exc:  # the listener says what is wrong
            logger.debug("tables not listed", reason=str(exc))
            return
        self._schema_changes = changed
        for loop in self.loops.values():
            loop.offer([t for t in tables if self._is_wanted(t.relation.schema, t.relation.name)], seen_at)

    def _acknowledge_schema(self) -> None:
        """Tell the source which versions of its schemas all targets have."""
        if all(loop.is_streaming for loop in self.loops.values()):
            self._acks.tell(min((loop.facts.position for loop in self.loops.values()), default=Lsn(0)))

    def _raise_errors(self) -> None:
        for loop in self.loops.values():
            if loop.error is not None:
                raise loop.error

    def _stop_loops(self) -> None:
        for loop in self.loops.values():
            loop.stop()
        for loop in self.loops.values():
            if loop.ident is not None:
                loop.join()


def _is_ours(record: PipelineRecord) -> bool:
    """Whether the publication has a list that we keep up to date."""
    return record.publication_made and record.selection.scope == "list"


@contextlib.contextmanager
def _writable(*directories: Path) -> Iterator[None]:
    """
    Make directories for their owner only, and see that they can be written to.

    If the block fails, those that were made for it go again: a run that was refused leaves nothing.
    """
    made = [
        place
        for directory in directories
        for place in (directory, *directory.parents)
        if not os.path.lexists(place)
    ]
    try:
        for directory in directories:
            prepare_directory(directory)
        yield
    except BaseException:
        for place in sorted(set(made), reverse=True):  # the inner ones first
            with contextlib.suppress(OSError):  # never made, or somebody put something in
                place.rmdir()
        raise
