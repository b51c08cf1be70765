"""
The loop of one sink: read the next transactions of the log, apply them, let the log go.

The position that the sink keeps is the only truth, so there is no second checkpoint to keep in step
with it. Each sink has a loop and a thread of its own, over the same log, at its own pace.

Neighbours: ``standing.py`` knows where the sink stands, ``feed.py`` hands it what comes next.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.changelog.position import Lsn, Progress
from pgsluice.pipeline.ahead import ReadAhead
from pgsluice.pipeline.anew import Beside, Owner, TablesAnew, beside_name, only
from pgsluice.pipeline.copy import TableCopy
from pgsluice.pipeline.feed import Feed, Way
from pgsluice.pipeline.gap import require_all_since
from pgsluice.pipeline.intake import Intake
from pgsluice.pipeline.letters.desk import Desk
from pgsluice.pipeline.letters.reading import LetterReader
from pgsluice.pipeline.letters.replay import Replay
from pgsluice.pipeline.remembered import with_progress
from pgsluice.pipeline.schema_versions import note_entries
from pgsluice.pipeline.sequences import FollowedSequences
from pgsluice.pipeline.session import spark_is_gone
from pgsluice.pipeline.standing import Standing
from pgsluice.pipeline.touched import TouchedKeys
from pgsluice.schema.renames import Renames
from pgsluice.schema.store import SchemaStore
from pgsluice.sinks.base import HoldsTables, TakesSchema, follows_schema, passes_schema, takes_identity
from pgsluice.source.relations import Relations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.changelog.plan import LogSlice
    from pgsluice.errors import TargetError
    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.config.targets import OnError
    from pgsluice.pipeline.copy import CopySource
    from pgsluice.pipeline.intake import BatchOptions
    from pgsluice.pipeline.letters.replay import Judged
    from pgsluice.pipeline.loop_facts import LoopFacts
    from pgsluice.pipeline.session import LazySpark
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Sink, SinkContext, Swap
    from pgsluice.source.relations import Catalog
    from pgsluice.source.snapshot.tables import CopiedTable
    from pgsluice.state.dead_letter import LetterBook
    from pgsluice.state.requests import Requests

logger = structlog.get_logger(__name__)

_WATERMARK_SECONDS: Final = 10.0  # how often an idle sink's progress follows the stream
_WAIT_SECONDS: Final = 0.2  # between looks at the stop flag while nothing comes


class SinkLoop(threading.Thread):
    """One sink, fed from the log until it is stopped, has caught up, or fails."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        *,
        log: Path,
        context: SinkContext,
        chain: Chain,
        spark: LazySpark,
        catalog: Catalog | None,
        wanted: Callable[[TableVersion], bool] | None,
        options: BatchOptions,
        copy_from: CopySource | None = None,
        copies_first: bool = True,
        renames: Renames | None = None,
        requests: Requests | None = None,
        letters: LetterBook | None = None,
        on_error: OnError = "stop",
        copies_once: bool = False,
    ) -> None:
        super().__init__(name=f"sink-{name}", daemon=True)
        sink = with_progress(sink, name)
        self.sink_name = name
        self._sink = sink
        self._context = context
        self._log = log
        self._options = options  # of the loops beside it as well
        self._spark = spark
        self._wanted = wanted
        self._standing = Standing(
            name, sink, log, Renames() if renames is None else renames, context.state_dir
        )
        self._desk = (
            Desk(name, sink, letters, self._standing.consumers, on_error=on_error) if letters else None
        )
        self._store: SchemaStore  # of the loop's own thread
        self._until: Lsn | None = None
        self._limit: Lsn | None = None
        self._making_session = threading.Lock()
        self._own_session: SparkSession | None = None
        self._anew_pipeline = f"{context.pipeline}/anew"
        self._way = Way(
            chain,
            self._session,
            context.state_dir,
            self._desk,
            copy_from,
            catalog,
            copies_first=copies_first and copy_from is not None,  # else a new sink begins with the stream
            copies_once=copies_once,
            applies_schema=follows_schema(sink) and context.notes_schema,
            copies_schema=isinstance(sink, TakesSchema) and sink.schema_options is not None,
            injects=takes_identity(sink),
        )
        self._anew = TablesAnew(
            Owner(
                self._standing,
                copy_from,
                self._anew_pipeline,
                self._loop_beside,
                self._keep_anew,
                chain,
                applies_schema=self._way.applies_schema,
            ),
            requests,
            lambda: self._store,
        )
        takes_chunks = getattr(sink, "takes_chunks", False)
        self._ahead = ReadAhead(options.queue_bytes if takes_chunks else 0)
        self._intake = Intake(
            self._standing.reader,
            options,
            lambda: chain.is_needed(injects=self._way.injects),
            spark,
            takes_chunks=takes_chunks,
        )
        self._feed = Feed(self._standing, self._way, self._anew, self._intake, self._ahead)
        self._sequences = _sequences(copy_from, sink, self._standing.renames)
        self._is_open = False
        self.error: BaseException | None = None
        self.is_streaming = False  # nothing is left to be copied first
        self.finished = False  # everything up to where it was to stop is applied

    @property
    def facts(self) -> LoopFacts:
        """What it has done so far."""
        return self._standing.facts

    @property
    def met(self) -> dict[int, TableVersion]:
        """The version in which a table came last, by relid."""
        return self._feed.met

    @property
    def copied_tables(self) -> set[int]:
        """The tables that the sink holds copies of."""
        return self._standing.copied_tables

    def open(self) -> Lsn | None:
        """Open the sink and hold the log for it; gives where it stands, None if it is new."""
        token = self._sink.open(self._context)
        try:
            progress = self._standing.take_up(token)
            if self._desk is not None:
                self._desk.settle(progress)
            self._standing.release()
        except BaseException:
            self._sink.close()
            raise
        self._is_open = True
        return None if progress is None else progress.end_lsn

    def open_later(self, reason: TargetError) -> None:
        """The target is away: the loop opens it when it comes back, and the log takes the stream so long."""
        self._standing.note_retry(reason)

    def _open_at_last(self) -> None:
        position = self.open()
        logger.info("sink opened", sink=self.sink_name, position=str(position or "new"))

    def require_log_since(self, slot_lsn: Lsn | None) -> None:
        """Raise when the log no longer holds all that came since its slot was made; for a new sink."""
        if slot_lsn is not None:
            require_all_since(slot_lsn, self._standing.reader, self.sink_name)

    def stop(self) -> None:
        """Finish the running batch, then end."""
        self._standing.stopping.set()

    def stop_at(self, lsn: Lsn, *, exactly: bool = False) -> None:
        """End once everything up to ``lsn`` is applied; ``exactly``: and begin nothing that ends after it."""
        self._limit = lsn if exactly else None
        self._until = lsn

    def offer(self, tables: Sequence[CopiedTable], seen_at: Lsn) -> None:
        """Say which tables are in the stream at a point: some may have to be copied."""
        self._anew.offer(tables, seen_at)

    def know(self, versions: Mapping[int, TableVersion]) -> None:
        """Say in which version tables were made that it goes on with."""
        self._feed.met |= versions

    def run(self) -> None:
        """The loop; its error is kept for the one who watches."""
        standing = self._standing
        store = self._store = SchemaStore(self._log / "schema.db")
        self._feed.begin(
            store,
            Relations(
                store,
                catalog=self._way.catalog,
                wanted=self._takes,
                with_schema=passes_schema(self._sink),
                follows_schema=self._way.applies_schema,
            ),
        )
        try:
            if not self._is_open and not standing.with_patience(self._open_at_last):
                return  # stopped before the target came back
            self._copy(store)
            self.is_streaming = True
            self._keep_beginning()
            self._overtake_letters(standing.left_alone)
            standing.with_patience(self._anew.resume)
            self._feed.know_copies()
            while not (standing.stopping.is_set() or self.finished):
                self._go_on()
            if self.finished and self._sequences is not None:
                self._sequences.follow(now=True)
        except BaseException as exc:  # noqa: BLE001 - raised again by the pipeline, in its own thread
            self.error = spark_is_gone(exc) or exc
            if self.facts.note is not None:
                self.facts.note.write(self.error, ended=True)
        finally:
            self.facts.ended = True
            self._anew.stop()
            self._ahead.close()
            if self._is_open:
                self._sink.close()
            if self._desk is not None:
                self._desk.book.close()
            store.close()

    def _go_on(self) -> None:
        """Once around."""
        self._tend_anew()
        self._replay_letters()
        if self._sequences is not None:
            self._sequences.follow()
        slice_, step = self._ahead.take() or (self._next(), None)
        if slice_ is not None:
            self._feed.apply(slice_, step, self._last)
            self.finished = self._is_done(self._standing.position)
        elif self._is_done(self._standing.reader.end):
            self.finished = True
        elif self._last is not None or not self._feed.apply_arriving():
            self._idle()

    def _copy(self, store: SchemaStore) -> None:
        """Copy tables that the sink does not hold yet: all, what is left of them, or those that joined."""
        standing, way = self._standing, self._way
        is_new = standing.token is None
        if way.source is None or not way.copies_first or not (is_new or standing.copies is not None):
            return  # a sink that began with changes alone goes on so
        copy = TableCopy(
            self.sink_name,
            self._sink,
            way.source,
            store=store,
            chain=way.chain,
            renames=standing.renames,
            spark=self._session,
            scratch=way.scratch,
            stopping=standing.stopping,
            facts=self.facts,
            touched=TouchedKeys(self._log, store, way.catalog, standing.stopping),
        )
        needed = False

        def look() -> None:
            nonlocal needed
            needed = self._is_needed(copy)

        if not standing.with_patience(look) or not needed:
            return
        if not is_new:
            standing.reader.next(standing.position, 1)  # raises when changes in between are gone
        token = copy.run(standing.token)
        self.facts.copying = None
        self.know(copy.versions)
        if token is not None:
            progress = Progress.decode(token)
            standing.copies = progress.copies
            # Which the copy has, and the loop skips.
            note_entries(standing.reader, store.history, progress.end_lsn)
            standing.move(progress.end_lsn, token)

    def _is_needed(self, copy: TableCopy) -> bool:
        """Whether tables are to be copied before the stream goes on."""
        standing, way = self._standing, self._way
        self._note_left_out(copy)
        if way.copies_schema and standing.copies is not None and standing.copies.finished:
            assert isinstance(self._sink, TakesSchema)
            self._sink.finish_making()  # the last run may have ended just before
        if way.applies_schema and standing.copies is not None and standing.copies.finished:
            self._anew.offer(*copy.published())  # begun with when the stream has come to where they were made
            return False
        return copy.is_needed(standing.copies)

    def _keep_beginning(self) -> None:
        """Letters of a sink without progress would be another's: a new one keeps its own before the first."""
        standing = self._standing
        if standing.token is None and self._desk is not None and self._desk.puts_aside:
            standing.keep(standing.progress(standing.position))

    def _note_left_out(self, copy: TableCopy) -> None:
        """A table that the filter leaves out lacks changes when it comes back: the progress says which."""
        standing = self._standing
        if standing.copies is None or standing.token is None:
            return
        left = copy.left_out(standing.copies)
        if left != standing.copies.left:
            standing.copies = replace(standing.copies, left=left)
            standing.keep(standing.progress(standing.position))

    def _takes(self, version: TableVersion) -> bool:
        wanted = self._wanted is None or self._wanted(version)
        return (
            wanted and version.relid not in self._standing.left_alone and not self._is_renamed_away(version)
        )

    def _is_renamed_away(self, version: TableVersion) -> bool:
        """Whether a table has left the pipeline by its name; the publication may have it for some seconds."""
        copies, source = self._standing.copies, self._way.source
        return (
            copies is not None
            and version.relid in copies.left
            and source is not None
            and not source.lists(version.schema, version.name)
        )

    def _tend_anew(self) -> None:
        """Begin with tables that are copied anew, and put those in place that are ready."""
        self._standing.with_patience(self._anew.take_requests)
        self._standing.with_patience(self._anew.take_newcomers)
        if self._anew.tend(self._ahead.end):
            self._anew.put_in_place()
        if self._standing.late_views and not self._standing.left_alone:
            self._fill_late_views()

    def _fill_late_views(self) -> None:
        """Fill the materialized views that had to wait for tables."""
        standing, sink = self._standing, self._sink
        assert isinstance(sink, TakesSchema)
        if standing.with_patience(lambda: sink.fill_views(standing.late_views, again=True)):
            standing.late_views = ()
            standing.keep(standing.progress(standing.position))

    def _keep_anew(
        self, relids: tuple[int, ...], swaps: Sequence[Swap] = (), copied: Sequence[int] = ()
    ) -> bool:
        standing = self._standing
        if standing.copies is not None and copied:
            point = max(standing.position, self._anew.until or Lsn(0))  # nothing lies between the two
            standing.copies = standing.copies.with_copied(point, copied)
        kept = standing.keep(replace(standing.progress(standing.position), anew=relids), swaps)
        if kept:
            standing.left_alone = relids
            self._overtake_letters(relids)
        return kept

    def _overtake_letters(self, relids: Sequence[int]) -> None:
        """Tables that are copied anew get rows that are newer than those that were refused."""
        if self._desk is not None and relids:
            versions = [version for version in self._store.versions() if version.relid in relids]
            self._desk.overtake(self._standing.renames.version(version).qualified for version in versions)

    def _replay_letters(self) -> None:
        """Replay the letters that people ask for."""
        standing = self._standing
        asked = self._desk.asked() if self._desk is not None else ()
        if not asked or self._desk is None or standing.token is None:
            return
        reader = LetterReader(
            self._log, lambda: self._store, self._way.chain, self._session, standing.renames, self._takes
        )
        replay = Replay(self._desk, reader, self._way.scratch)
        ids = [letter.id for letter in asked]

        judged: Judged | None = None

        def once() -> None:
            nonlocal judged
            assert standing.token is not None
            judged = judged or replay.judge(ids)
            progress = replay.finish(judged, standing.token, standing.progress(standing.position))
            standing.replays, standing.token = progress.replays, progress.encode()

        standing.with_patience(once)

    def _loop_beside(self, relids: Sequence[int]) -> SinkLoop:
        """A loop of its own for the tables that are copied anew."""
        assert self._way.source is not None
        assert isinstance(self._sink, HoldsTables)
        return SinkLoop(
            beside_name(self.sink_name),
            self._sink.twin(),
            log=self._log,
            context=replace(self._context, pipeline=self._anew_pipeline),
            chain=self._way.chain,
            spark=self._spark,
            catalog=self._way.catalog,
            wanted=lambda version: version.relid in relids,
            options=self._options,
            copy_from=only(self._way.source, relids),
            renames=Beside(pipeline=self._anew_pipeline),
            copies_once=True,
        )

    def _next(self) -> LogSlice | None:
        standing = self._standing
        return self._intake.next(standing.position, self._last, standing.stopping, self._is_done)

    @property
    def _last(self) -> Lsn | None:
        """Nothing that ends later is begun with."""
        return self._limit or self._anew.until

    def _session(self) -> SparkSession:
        """This loop's own Spark session: settings that a sink makes for one commit stay its own."""
        with self._making_session:  # the thread that reads ahead asks too
            if self._own_session is None:
                self._own_session = self._spark.child()
            return self._own_session

    def _is_done(self, position: Lsn) -> bool:
        """Whether that is as far as it was to go, and nothing is copied beside it."""
        if self._until is None or position < self._until:
            return False
        return not (self._anew.is_needed or self._standing.late_views)

    def _idle(self) -> None:
        """Wait for more; when nothing comes for long, let the progress follow the stream."""
        standing = self._standing
        if standing.reader.wait(_WAIT_SECONDS):
            return
        self._intake.under_load = False
        end = standing.reader.end
        behind = end > standing.position and standing.quiet_seconds >= _WATERMARK_SECONDS
        if behind and standing.reader.next(standing.position, 1) is None:
            standing.keep(standing.progress(end))


def _sequences(source: CopySource | None, sink: Sink, renames: Renames) -> FollowedSequences | None:
    """For a target that has the source's schema."""
    if source is None or not isinstance(sink, TakesSchema) or sink.schema_options is None:
        return None
    return FollowedSequences(source.url, sink, renames)
