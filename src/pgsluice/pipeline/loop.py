"""
The loop of one sink: read the next transactions of the log, apply them, let the log go.

The position that the sink keeps is the only truth, so there is no second checkpoint to keep in step
with it. Each sink has a loop and a thread of its own, over the same log, at its own pace.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.changelog.arriving import BrokenOffError
from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn, Progress
from pgsluice.changelog.reader import LogReader
from pgsluice.errors import TableChangedError
from pgsluice.observability.failpoints import failpoint
from pgsluice.pipeline.ahead import ReadAhead
from pgsluice.pipeline.anew import Beside, Owner, TablesAnew, beside_name, only
from pgsluice.pipeline.arriving import ArrivingStep, EarlyStart
from pgsluice.pipeline.batch import LogBatch, LogStep, SchemaStep
from pgsluice.pipeline.copy import TableCopy
from pgsluice.pipeline.gap import require_all_since
from pgsluice.pipeline.intake import Intake
from pgsluice.pipeline.letters.desk import Desk
from pgsluice.pipeline.letters.reading import LetterReader
from pgsluice.pipeline.letters.replay import Replay
from pgsluice.pipeline.policy import with_patience
from pgsluice.pipeline.remembered import with_progress
from pgsluice.pipeline.schema_steps import (
    for_target,
    read_entries,
    refused_change,
    require_unchanged,
    steps_of,
    without_changes,
)
from pgsluice.pipeline.schema_versions import note_entries
from pgsluice.pipeline.sequences import FollowedSequences
from pgsluice.pipeline.session import spark_is_gone
from pgsluice.pipeline.touched import TouchedKeys
from pgsluice.pipeline.trouble import TroubleNote
from pgsluice.schema.renames import Renames
from pgsluice.schema.store import SchemaStore
from pgsluice.sinks.base import HoldsTables, TakesSchema, follows_schema, passes_schema
from pgsluice.source.relations import Relations
from pgsluice.units import readable_size

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.changelog.plan import LogRange, LogSlice
    from pgsluice.changelog.position import Copies
    from pgsluice.errors import TargetError
    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.config.targets import OnError
    from pgsluice.pipeline.copy import CopySource
    from pgsluice.pipeline.copy_report import SinkReport
    from pgsluice.pipeline.intake import BatchOptions
    from pgsluice.pipeline.letters.replay import Judged
    from pgsluice.pipeline.session import LazySpark
    from pgsluice.schema.entry import ObjectChange, SchemaEntry
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Sink, SinkContext, Swap
    from pgsluice.source.relations import Catalog, DecodableRange
    from pgsluice.source.snapshot.tables import CopiedTable
    from pgsluice.state.dead_letter import LetterBook, Refused
    from pgsluice.state.requests import Requests

logger = structlog.get_logger(__name__)

_WATERMARK_SECONDS: Final = 10.0  # how often an idle sink's progress follows the stream
_WAIT_SECONDS: Final = 0.2  # between looks at the stop flag while nothing comes


@dataclass(slots=True)
class LoopFacts:
    """What a loop has done so far; read by others, written by the loop alone."""

    position: Lsn = field(default_factory=lambda: Lsn(0))
    batches: int = 0
    changes: int = 0
    schema_changes: int = 0  # transactions that had some
    early: int = 0  # transactions that were applied while they came in
    retrying: str = ""  # why, while the target can't take a batch
    note: TroubleNote | None = None  # where others see that, too
    copying: SinkReport | None = None  # how far, while tables are copied

    def try_again(self, error: Exception) -> None:
        """The target can't take a batch now."""
        self.retrying = str(error)
        if self.note is not None:
            self.note.write(error, ended=False)

    def go_on(self) -> None:
        """It has taken a batch."""
        self.retrying = ""
        if self.note is not None:
            self.note.clear()

    @property
    def state(self) -> str:
        """What it does now, for people."""
        if self.retrying:
            return f"retrying: {self.retrying}"
        if self.copying is None:
            return "running"
        done, size = self.copying.copied_bytes, self.copying.bytes
        return f"copying tables, {100 * done // max(size, 1)} % of {readable_size(size)}"


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
        notes_schema: bool = False,
        copies_once: bool = False,
    ) -> None:
        super().__init__(name=f"sink-{name}", daemon=True)
        sink = self._sink = with_progress(sink, name)
        self.sink_name = name
        self._context = context
        self._chain = chain
        self._spark = spark
        self._renames = Renames() if renames is None else renames
        self._options = options  # of the loops beside it as well
        self._log = log
        self._reader = LogReader(log)
        self._catalog = catalog
        self._wanted = wanted
        self._consumers = Consumers(log)
        self._desk = Desk(name, sink, letters, self._consumers, on_error=on_error) if letters else None
        self._replays = 0
        self._store: SchemaStore  # of the loop's own thread
        self._stopping = threading.Event()
        self._until: Lsn | None = None
        self._limit: Lsn | None = None
        self._making_session = threading.Lock()
        self._own_session: SparkSession | None = None
        self._token: str | None = None
        self._copy_from = copy_from
        self._copies_first = copies_first and copy_from is not None  # else a new sink begins with the stream
        self._anew_pipeline = f"{context.pipeline}/anew"
        self._applies_schema = follows_schema(sink) and notes_schema
        self.met: dict[int, TableVersion] = {}  # the version in which a table came last, by relid
        self._anew = TablesAnew(
            Owner(
                name,
                sink,
                copy_from,
                self._renames,
                self._anew_pipeline,
                self._loop_beside,
                self._keep_anew,
                applies_schema=self._applies_schema,
            ),
            requests,
            lambda: self._store,
        )
        self._copies_once = copies_once  # beside another loop: tables that change are begun with again
        self._copies: Copies | None = None
        self._copied_names: dict[int, str] = {}  # of the tables that are copied, by relid
        self._new = True  # no progress
        self._is_open = False
        takes_chunks = getattr(sink, "takes_chunks", False)
        self._ahead = ReadAhead(options.queue_bytes if takes_chunks else 0)
        self._intake = Intake(self._reader, options, chain, spark, takes_chunks=takes_chunks)
        rest = chain, self._session, context.state_dir
        self._early = EarlyStart(
            sink, self._reader, lambda *parts: ArrivingStep(*parts, self._stopping, *rest)
        )
        self._sequences = _sequences(copy_from, sink, self._renames)
        self._moved_at = time.monotonic()
        self.facts = LoopFacts(note=TroubleNote(context.state_dir, name))
        self.error: BaseException | None = None
        self.is_streaming = False  # nothing is left to be copied first
        self.finished = False  # everything up to where it was to stop is applied

    def open(self) -> Lsn | None:
        """Open the sink and hold the log for it; gives where it stands, None if it is new."""
        self._token = self._sink.open(self._context)
        try:
            position = self._take_up()
        except BaseException:
            self._sink.close()
            raise
        self._is_open = True
        return position

    def open_later(self, reason: TargetError) -> None:
        """The target is away: the loop opens it when it comes back, and the log takes the stream so long."""
        self._note_retry(reason)

    def _open_at_last(self) -> None:
        position = self.open()
        logger.info("sink opened", sink=self.sink_name, position=str(position or "new"))

    def _take_up(self) -> Lsn | None:
        """Go on where the sink stands."""
        position = self._reader.first_lsn
        if self._token is not None:
            progress = Progress.decode(self._token)
            progress.require_system(self._reader.meta.system_id, self.sink_name)
            progress.require_names(str(self._renames), self.sink_name)
            position, self._copies = progress.end_lsn, progress.copies
            self._anew.relids, self._replays = progress.anew, progress.replays
        if self._desk is not None:
            self._desk.settle(None if self._token is None else progress)
        self._new = self._token is None
        self.facts.position = position
        self._consumers.release(self.sink_name, position)
        return None if self._new else position

    def require_log_since(self, slot_lsn: Lsn | None) -> None:
        """Raise when the log no longer holds all that came since its slot was made; for a new sink."""
        if slot_lsn is not None:
            require_all_since(slot_lsn, self._reader, self.sink_name)

    def stop(self) -> None:
        """Finish the running batch, then end."""
        self._stopping.set()

    def stop_at(self, lsn: Lsn, *, exactly: bool = False) -> None:
        """End once everything up to ``lsn`` is applied; ``exactly``: and begin nothing that ends after it."""
        self._limit = lsn if exactly else None
        self._until = lsn

    def offer(self, tables: Sequence[CopiedTable], seen_at: Lsn) -> None:
        """Say which tables are in the stream at a point: some may have to be copied."""
        self._anew.offer(tables, seen_at)

    @property
    def copied_tables(self) -> set[int]:
        """The tables that the sink holds copies of."""
        return self._copies.tables if self._copies is not None else set()

    def run(self) -> None:
        """The loop; its error is kept for the one who watches."""
        store = self._store = SchemaStore(self._log / "schema.db")
        relations = Relations(
            store, catalog=self._catalog, wanted=self._takes, with_schema=passes_schema(self._sink)
        )
        try:
            if not self._is_open and not self._with_patience(self._open_at_last):
                return  # stopped before the target came back
            self._copy(store)
            self.is_streaming = True
            self._keep_beginning()
            self._overtake_letters(self._anew.relids)
            self._anew.resume()
            if self._copies is not None and self._copies.points:
                self._copied_names = {version.relid: version.qualified for version in store.versions()}
            while not (self._stopping.is_set() or self.finished):
                self._tend_anew()
                self._replay_letters()
                if self._sequences is not None:
                    self._sequences.follow()
                slice_, step = self._ahead.take() or (self._next(), None)
                if slice_ is not None:
                    self._apply(slice_, step, relations)
                    self.finished = self._is_done(self.facts.position)
                elif self._is_done(self._reader.end):
                    self.finished = True
                elif not self._apply_arriving(relations):
                    self._idle()
            if self.finished and self._sequences is not None:
                self._sequences.follow(now=True)
        except BaseException as exc:  # noqa: BLE001 - raised again by the pipeline, in its own thread
            self.error = spark_is_gone(exc) or exc
            if self.facts.note is not None:
                self.facts.note.write(self.error, ended=True)
        finally:
            self._anew.stop()
            self._ahead.close()
            if self._is_open:
                self._sink.close()
            if self._desk is not None:
                self._desk.book.close()
            store.close()

    def _copy(self, store: SchemaStore) -> None:
        """Copy tables that the sink does not hold yet: all, what is left of them, or those that joined."""
        if self._copy_from is None or not self._copies_first or not (self._new or self._copies is not None):
            return  # a sink that began with changes alone goes on so
        copy = TableCopy(
            self.sink_name,
            self._sink,
            self._copy_from,
            store=store,
            chain=self._chain,
            renames=self._renames,
            spark=self._session,
            scratch=self._context.state_dir,
            stopping=self._stopping,
            facts=self.facts,
            touched=TouchedKeys(self._log, store, self._catalog, self._stopping),
        )
        self._note_left_out(copy)
        if self._applies_schema and self._copies is not None and self._copies.finished:
            self._anew.offer(*copy.published())  # begun with when the stream has come to where they were made
            return
        if not copy.is_needed(self._copies):
            return
        if not self._new:
            self._reader.next(self.facts.position, 1)  # raises when changes in between are gone
        token = copy.run(self._token)
        self.facts.copying = None
        self.met |= copy.versions
        if token is not None:
            progress = Progress.decode(token)
            self._copies = progress.copies
            note_entries(
                self._reader, store.history, progress.end_lsn
            )  # which the copy has, and the loop skips
            self._moved_to(progress.end_lsn, token)

    def _keep_beginning(self) -> None:
        """Letters of a sink without progress would be another's: a new one keeps its own before the first."""
        if self._token is None and self._desk is not None and self._desk.puts_aside:
            self._move(self._progress(self.facts.position))

    def _note_left_out(self, copy: TableCopy) -> None:
        """A table that the filter leaves out lacks changes when it comes back: the progress says which."""
        if self._copies is None or self._token is None:
            return
        left = copy.left_out(self._copies)
        if left != self._copies.left:
            self._copies = replace(self._copies, left=left)
            self._move(self._progress(self.facts.position))

    def _takes(self, version: TableVersion) -> bool:
        wanted = self._wanted is None or self._wanted(version)
        return wanted and version.relid not in self._anew.relids

    def _tend_anew(self) -> None:
        """Begin with tables that are copied anew, and put those in place that are ready."""
        self._with_patience(self._anew.take_requests)
        self._with_patience(lambda: self._anew.take_newcomers(self._copies, self._has_reached))
        if self._anew.tend(self.facts.position, self._ahead.end, self._reader):
            self._anew.put_in_place(self._consumers, self.copied_tables)

    def _has_reached(self, lsn: Lsn) -> bool:
        """Whether everything up to a position is applied."""
        return self.facts.position >= lsn or (
            self._reader.end >= lsn and self._reader.next(self.facts.position, 1) is None
        )

    def _keep_anew(
        self, relids: tuple[int, ...], swaps: Sequence[Swap] = (), copied: Sequence[int] = ()
    ) -> bool:
        if self._copies is not None and copied:
            point = max(self.facts.position, self._anew.until or Lsn(0))  # nothing lies between the two
            self._copies = self._copies.with_copied(point, copied)
        kept = self._move(replace(self._progress(self.facts.position), anew=relids), swaps)
        if kept:
            self._overtake_letters(relids)
        return kept

    def _overtake_letters(self, relids: Sequence[int]) -> None:
        """Tables that are copied anew get rows that are newer than those that were refused."""
        if self._desk is not None and relids:
            versions = [version for version in self._store.versions() if version.relid in relids]
            self._desk.overtake(self._renames.version(version).qualified for version in versions)

    def _replay_letters(self) -> None:
        """Replay the letters that people ask for."""
        asked = self._desk.asked() if self._desk is not None else ()
        if not asked or self._desk is None or self._token is None:
            return
        reader = LetterReader(
            self._log, lambda: self._store, self._chain, self._session, self._renames, self._takes
        )
        replay = Replay(self._desk, reader, self._context.state_dir)
        ids = [letter.id for letter in asked]

        judged: Judged | None = None

        def once() -> None:
            nonlocal judged
            assert self._token is not None
            judged = judged or replay.judge(ids)
            progress = replay.finish(judged, self._token, self._progress(self.facts.position))
            self._replays, self._token = progress.replays, progress.encode()

        self._with_patience(once)

    def _loop_beside(self, relids: Sequence[int]) -> SinkLoop:
        """A loop of its own for the tables that are copied anew."""
        assert self._copy_from is not None
        assert isinstance(self._sink, HoldsTables)
        return SinkLoop(
            beside_name(self.sink_name),
            self._sink.twin(),
            log=self._log,
            context=replace(self._context, pipeline=self._anew_pipeline),
            chain=self._chain,
            spark=self._spark,
            catalog=self._catalog,
            wanted=lambda version: version.relid in relids,
            options=self._options,
            copy_from=only(self._copy_from, relids),
            renames=Beside(pipeline=self._anew_pipeline),
            copies_once=True,
        )

    def _move(self, progress: Progress, swaps: Sequence[Swap] = ()) -> bool:
        """Let the sink keep another progress; False when stopped before."""
        batch = LogBatch(self._token, progress.encode(), (), swaps)
        if not self._with_patience(lambda: self._sink.apply(batch)):
            return False
        self._moved_to(progress.end_lsn, batch.end)
        return True

    def _next(self) -> LogSlice | None:
        return self._intake.next(self.facts.position, self._last, self._stopping, self._is_done)

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
        return self._until is not None and position >= self._until and not self._anew.is_needed(self._copies)

    def _idle(self) -> None:
        """Wait for more; when nothing comes for long, let the progress follow the stream."""
        if self._reader.wait(_WAIT_SECONDS):
            return
        self._intake.under_load = False
        end = self._reader.end
        quiet = time.monotonic() - self._moved_at
        behind = end > self.facts.position and quiet >= _WATERMARK_SECONDS
        if behind and self._reader.next(self.facts.position, 1) is None:
            self._move(self._progress(end))

    def _apply(self, slice_: LogSlice, ready: LogStep | None, relations: Relations) -> None:
        if slice_.changes_schema and self._copies_once and self._copies is not None:
            require_unchanged(slice_.ranges, self._copies)
        if slice_.changes_schema and not self._with_patience(
            lambda: note_entries(self._reader, self._store.history, slice_.end)
        ):
            return
        if slice_.changes_schema and self._applies_schema:
            self._apply_with_schema(slice_, relations)
            return
        step = ready
        end = ""

        def once() -> None:
            nonlocal step, end
            step = step or self._step(slice_, relations)
            self._intake.under_load = not (step.small or self._intake.on_driver)
            if self._intake.under_load:
                self._ahead.begin(
                    step,
                    lambda most: self._intake.read_large(slice_.end, self._last, most),
                    lambda following: self._step(following, relations),
                )
            end = self._progress(slice_.end).encode()
            self._hand_over(LogBatch(self._token, end, (step,)), slice_)

        if self._with_patience(once):
            self._applied(slice_.end, end, slice_.changes)
            self.facts.schema_changes += slice_.changes_schema

    def _apply_with_schema(self, slice_: LogSlice, relations: Relations) -> None:
        """Rows and changes of the schema, in the order of the source and in one go."""
        source = self._copy_from
        wanted = source.wanted if source is not None else lambda *_: True
        entries = {
            range_: for_target(entry, self._renames, self._catalog)
            for range_, entry in read_entries(slice_.ranges, wanted, self._copies).items()
        }
        changes = [change for entry in entries.values() for change in entry.changes]
        self._note_made(changes, slice_.start)
        lists = source is not None and source.lists_tables
        others = {change.oid for change in changes if change.rewritten or (lists and change.is_attached)}
        rewritten = others & self.copied_tables
        end = ""

        def made(without: Collection[Refused]) -> LogBatch:
            nonlocal end
            steps = steps_of(  # first: a table that has to be copied before moves the progress
                slice_.ranges,
                without_changes(entries, without),
                lambda ranges: self._step(replace(slice_, ranges=ranges), relations),
                lambda entry: SchemaStep(entry, self._session, self._context.state_dir),
            )
            anew = (*self._anew.relids, *sorted(rewritten - {*self._anew.relids}))
            end = replace(self._progress(slice_.end), anew=anew).encode()
            return LogBatch(self._token, end, steps)

        def once() -> None:
            if rewritten and not self._anew.relids and isinstance(self._sink, HoldsTables):
                self._sink.forget(self._anew_pipeline)  # nothing of an earlier copy is gone on with
            self._hand_over_with_schema(made, slice_, entries)

        if self._with_patience(once):
            self._applied(slice_.end, end, slice_.changes)
            self.facts.schema_changes += 1
            if rewritten:
                self._anew.take_rewritten(rewritten)

    def _hand_over_with_schema(
        self,
        made: Callable[[Collection[Refused]], LogBatch],
        slice_: LogSlice,
        entries: Mapping[LogRange, SchemaEntry],
    ) -> None:
        if self._desk is None:
            self._sink.apply(made(()))
        else:
            self._desk.apply_with_schema(
                made, (slice_.start, slice_.end), lambda error: refused_change(error, entries)
            )

    def _note_made(self, changes: Sequence[ObjectChange], position: Lsn) -> None:
        """A table that is made in the stream lacks nothing, if it is published from then on."""
        if self._copies is not None:
            lists = self._copy_from is not None and self._copy_from.lists_tables
            made = [
                each.oid
                for each in changes
                if each.before is None
                and each.definition.get("kind") == "table"
                and (not lists or "bound" in each.definition)
            ]
            self._copies = self._copies.with_copied(position, made) if made else self._copies

    def _apply_arriving(self, relations: Relations) -> bool:
        """Begin with a transaction that is still coming in; False when there is none to begin with."""
        if not self._may_begin_early():
            return False
        position = self.facts.position
        begun = self._early.begin(
            position,
            self._token,
            lambda ranges: self._resolve(ranges, position, relations, early=True),
            lambda end: self._progress(end).encode(),
        )
        if begun is None:
            return False
        if begun.token is not None:
            self._applied(begun.end, begun.token, begun.changes)
            self.facts.early += 1
        elif begun.end:  # it may have been committed, and only the reply was lost: the very same once more
            whole = self._reader.next(position, 1, until=begun.end)
            if whole is not None:  # else a failed sync has cut it after all
                self._apply(whole, None, relations)
        return True

    def _may_begin_early(self) -> bool:
        """Whether nothing but the next transaction's own end is missing."""
        return (
            self._early.possible
            and self._intake.on_driver
            and not self._options.max_wait
            and self._last is None
            and not self._anew.relids
            and (self._desk is None or self._desk.is_empty)
        )

    def _hand_over(self, batch: LogBatch, slice_: LogSlice) -> None:
        if self._desk is None:
            self._sink.apply(batch)
        else:
            self._desk.apply(batch, slice_.start, slice_.end)

    def _step(self, slice_: LogSlice, relations: Relations) -> LogStep:
        parts, tables = self._resolve(slice_.ranges, slice_.start, relations)
        return LogStep(
            parts,
            tables,
            self._chain,
            self._session,
            self._context.state_dir,
            small=self._intake.is_small(slice_),
            on_driver=self._intake.on_driver,
        )

    def _resolve(
        self, ranges: Sequence[LogRange], after: Lsn, relations: Relations, *, early: bool = False
    ) -> tuple[list[DecodableRange], dict[int, TableVersion]]:
        """Ranges that follow a position, ready to be decoded, with their tables as the target calls them."""
        parts, tables = relations.resolve(ranges)
        if self._copies_first and early and self._anew.unknown(tables.values(), self._copies):
            raise BrokenOffError  # a table that has to be copied before
        if self._copies_first and self._anew.take_unknown(tables.values(), self._copies):
            parts, tables = relations.resolve(ranges)
        if self._copies is not None:
            copied = tuple(
                (version.id, int(lsn))
                for version in tables.values()
                if (lsn := self._copied_at(version, self._copies, after)) is not None
            )
            parts = [replace(part, copied=copied) for part in parts]
        self._note_met(tables.values())
        return parts, {number: self._renames.version(version) for number, version in tables.items()}

    def _note_met(self, versions: Iterable[TableVersion]) -> None:
        for version in versions:
            known = self.met.get(version.relid)
            if self._copies_once and known is not None and known.columns != version.columns:
                raise TableChangedError(f"{version.qualified} was changed while it was copied anew")
            self.met[version.relid] = version

    def _copied_at(self, version: TableVersion, copies: Copies, after: Lsn) -> Lsn | None:
        """Where a table was copied last, if after a position; or one that took its name since."""
        names = self._copied_names
        points = [
            lsn
            for lsn, relids in copies.points.items()
            if lsn > after
            and any(relid == version.relid or names.get(relid) == version.qualified for relid in relids)
        ]
        return max(points, default=None)

    def _with_patience(self, attempt: Callable[[], None]) -> bool:
        """Try until it works, unless the error can't get better; False when stopped meanwhile."""
        done = with_patience(attempt, self._stopping, self._note_retry)
        if done:
            self.facts.go_on()
        return done

    def _note_retry(self, exc: Exception) -> None:
        self.facts.try_again(exc)
        logger.warning("batch could not be applied, trying again", sink=self.sink_name, reason=str(exc))

    def _applied(self, end: Lsn, token: str, changes: int) -> None:
        self._moved_to(end, token)
        self.facts.batches += 1
        self.facts.changes += changes

    def _moved_to(self, end: Lsn, token: str) -> None:
        self._token = token
        self.facts.position = end
        self._moved_at = time.monotonic()
        failpoint("loop.before_release")
        try:
            self._consumers.release(self.sink_name, end)
        except OSError as exc:  # the log's disk is full: the next batch says it again
            logger.warning("log not released", sink=self.sink_name, reason=str(exc))
        failpoint("loop.after_release")

    def _progress(self, end: Lsn) -> Progress:
        meta = self._reader.meta
        return Progress(
            meta.system_id,
            meta.timeline,
            end,
            self._copies,
            self._anew.relids,
            self._replays,
            str(self._renames),
        )


def _sequences(source: CopySource | None, sink: Sink, renames: Renames) -> FollowedSequences | None:
    """For a target that has the source's schema."""
    if source is None or not isinstance(sink, TakesSchema) or sink.schema_options is None:
        return None
    return FollowedSequences(source.url, sink, renames)
