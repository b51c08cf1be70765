"""
The loop of one sink: read the next transactions of the log, apply them, let the log go.

The position that the sink keeps is the only truth, so there is no second checkpoint to keep in step
with it. Each sink has a loop and a thread of its own, over the same log, at its own pace.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn, Progress
from pgsluice.changelog.reader import LogReader, LogSlice
from pgsluice.errors import SinkBehindLogError, SlotAheadOfLogError, WrongSystemError
from pgsluice.observability.failpoints import failpoint
from pgsluice.pipeline.ahead import ReadAhead
from pgsluice.pipeline.batch import SMALL_BYTES, LogBatch, LogStep
from pgsluice.pipeline.policy import after_error
from pgsluice.pipeline.session import spark_is_gone
from pgsluice.schema.store import SchemaStore
from pgsluice.source.relations import Relations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.session import LazySpark
    from pgsluice.sinks.base import Sink, SinkContext
    from pgsluice.source.relations import Catalog

logger = structlog.get_logger(__name__)

_WATERMARK_SECONDS: Final = 10.0  # how often an idle sink's progress follows the stream
_WAIT_SECONDS: Final = 0.2  # between looks at the stop flag while nothing comes
_FILL_SECONDS: Final = 0.1  # under load: a job costs as much CPU as some ten thousand rows


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How much a sink is given at a time."""

    max_bytes: int = 64 << 20  # of log; bounds what the driver and the target hold at once
    max_changes: int | None = None
    max_wait: float = 0.0  # seconds to let a batch fill; 0 takes what there is
    small_bytes: int = SMALL_BYTES  # up to it a batch is decoded on the driver
    without_spark_bytes: int = 8 << 20  # the same while Spark is not started and no modifier needs it
    queue_bytes: int = 64 << 20  # of log: how much is made ready while the sink writes; 0 for nothing


@dataclass(slots=True)
class LoopFacts:
    """What a loop has done so far; read by others, written by the loop alone."""

    position: Lsn = field(default_factory=lambda: Lsn(0))
    batches: int = 0
    changes: int = 0
    retrying: str = ""  # why, while the target can't take a batch


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
        wanted: Callable[[str, str], bool] | None,
        options: BatchOptions,
    ) -> None:
        super().__init__(name=f"sink-{name}", daemon=True)
        self._sink = sink
        self._sink_name = name
        self._context = context
        self._chain = chain
        self._spark = spark
        self._options = options
        self._log = log
        self._reader = LogReader(log)
        self._catalog = catalog
        self._wanted = wanted
        self._consumers = Consumers(log)
        self._stopping = threading.Event()
        self._until: Lsn | None = None
        self._making_session = threading.Lock()
        self._own_session: SparkSession | None = None
        self._token: str | None = None
        self._ahead = ReadAhead(options.queue_bytes if getattr(sink, "takes_chunks", False) else 0)
        self._under_load = False  # whether the last batch went through tasks, and nothing was idle since
        self._moved_at = time.monotonic()
        self.facts = LoopFacts()
        self.error: BaseException | None = None

    def open(self) -> Lsn | None:
        """Open the sink and hold the log for it; gives where it stands, None if it is new."""
        self._token = self._sink.open(self._context)
        known = self._last_released()
        position = known or self._reader.first_lsn
        if self._token is not None:
            progress = Progress.decode(self._token)
            if progress.system_id != self._reader.meta.system_id:
                raise WrongSystemError(
                    f"target {self._sink_name!r} holds data of system {progress.system_id}, "
                    f"the source is {self._reader.meta.system_id}",
                    remedy="Use another target, or empty this one and copy the data again",
                )
            position = progress.end_lsn
        self.facts.position = position
        self._consumers.release(self._sink_name, position)
        return position if self._token is not None or known is not None else None

    def _last_released(self) -> Lsn | None:
        """Where a sink that keeps no progress itself (lines on a terminal) goes on; None for all others."""
        if getattr(self._sink, "keeps_progress", True):
            return None
        return next((c.lsn for c in self._consumers.all() if c.name == self._sink_name), None)

    def require_log_since(self, slot_lsn: Lsn | None) -> None:
        """
        Raise when the log no longer holds all that came since its slot was made: a new sink would lack it.

        Only asked for a target without progress; the progress of others tells whether they lack something.
        """
        if slot_lsn is None:
            return
        began, first = Lsn.parse(self._reader.meta.start_lsn), self._reader.first_lsn
        if began <= slot_lsn < first:
            raise SinkBehindLogError(
                f"target {self._sink_name!r} is new or was emptied, but the changes from {slot_lsn} to "
                f"{first} are no longer in the change log {self._log}",
                remedy="Restore the target, or start anew: pgsluice destroy, then init",
                after=str(slot_lsn),
                first=str(first),
            )
        if began > slot_lsn:
            raise SlotAheadOfLogError(
                f"the slot was made at {slot_lsn}, but the log in {self._log} begins at {began}: "
                "an earlier log is missing, and the changes that it held",
                remedy="Put the log back; or start anew: pgsluice destroy, then init",
                first=str(slot_lsn),
                last=str(began),
            )

    def stop(self) -> None:
        """Finish the running batch, then end."""
        self._stopping.set()

    def stop_at(self, lsn: Lsn) -> None:
        """End once everything up to ``lsn`` is applied."""
        self._until = lsn

    def run(self) -> None:
        """The loop; its error is kept for the one who watches."""
        store = SchemaStore(self._log / "schema.db")
        relations = Relations(store, catalog=self._catalog, wanted=self._wanted)
        try:
            while not self._stopping.is_set():
                slice_, step = self._ahead.take() or (self._next(), None)
                if slice_ is not None:
                    self._apply(slice_, step, relations)
                elif self._caught_up():
                    return
                else:
                    self._idle()
        except BaseException as exc:  # noqa: BLE001 - raised again by the pipeline, in its own thread
            self.error = spark_is_gone(exc) or exc
        finally:
            self._ahead.close()
            self._sink.close()
            store.close()

    def _next(self) -> LogSlice | None:
        slice_ = self._read()
        if slice_ is None or slice_.bytes >= self._options.max_bytes:
            return slice_
        wait = self._options.max_wait or self._fill_seconds(slice_)
        if not wait:
            return slice_
        return None if self._stopping.wait(wait) else self._read()

    def _fill_seconds(self, slice_: LogSlice) -> float:
        """While one batch for tasks follows another, each may fill a moment: fewer jobs for the same rows."""
        return _FILL_SECONDS if self._under_load and slice_.bytes > self._options.small_bytes else 0.0

    def _read(self) -> LogSlice | None:
        options = self._options
        slice_ = self._reader.next(self.facts.position, options.max_bytes, max_changes=options.max_changes)
        if slice_ is None or slice_.bytes <= options.small_bytes or self._spark.ready:
            return slice_
        if self._go_without_spark(slice_):
            return slice_
        # Small batches need no Spark: go on with those while it starts.
        self._spark.warm_up()
        return self._reader.next(self.facts.position, options.small_bytes, max_changes=options.max_changes)

    def _go_without_spark(self, slice_: LogSlice) -> bool:
        """
        Whether a batch is not worth starting Spark for.

        The driver decodes it alone, as it does small ones, and its memory is bounded all the same. Spark is
        started by the first backlog that is larger, or by a chain, and serves from then on.
        """
        return not self._chain and not self._spark.ready and slice_.bytes <= self._options.without_spark_bytes

    def _session(self) -> SparkSession:
        """This loop's own Spark session: settings that a sink makes for one commit stay its own."""
        with self._making_session:  # the thread that reads ahead asks too
            if self._own_session is None:
                self._own_session = self._spark.child()
            return self._own_session

    def _caught_up(self) -> bool:
        return self._until is not None and self._reader.end >= self._until

    def _idle(self) -> None:
        """Wait for more; when nothing comes for long, let the progress follow the stream."""
        if self._reader.wait(_WAIT_SECONDS):
            return
        self._under_load = False
        end = self._reader.end
        quiet = time.monotonic() - self._moved_at
        behind = end > self.facts.position and quiet >= _WATERMARK_SECONDS
        if behind and self._reader.next(self.facts.position, 1) is None:
            self._follow(end)

    def _apply(self, slice_: LogSlice, ready: LogStep | None, relations: Relations) -> None:
        step = ready

        def once() -> None:
            nonlocal step
            step = step or self._step(slice_, relations)
            self._under_load = not step.small
            if not step.small:
                self._ahead.begin(
                    step,
                    lambda most: self._read_large(slice_.end, most),
                    lambda following: self._step(following, relations),
                )
            self._sink.apply(LogBatch(self._token, self._encode(slice_.end), (step,)))

        if self._with_patience(once):
            self._moved_to(slice_.end)
            self.facts.batches += 1
            self.facts.changes += slice_.changes

    def _step(self, slice_: LogSlice, relations: Relations) -> LogStep:
        parts, tables = relations.resolve(slice_.ranges)
        small = slice_.bytes <= self._options.small_bytes or self._go_without_spark(slice_)
        return LogStep(parts, tables, self._chain, self._session, self._context.state_dir, small=small)

    def _read_large(self, after: Lsn, most: int) -> LogSlice | None:
        """What follows a position, if that is much; a smaller batch had better grow meanwhile."""
        options = self._options
        most = min(options.max_bytes, most)
        slice_ = self._reader.next(after, most, max_changes=options.max_changes)
        is_much = slice_ is not None and slice_.bytes > max(options.small_bytes, most // 2)
        return slice_ if is_much else None

    def _follow(self, end: Lsn) -> None:
        """Move the progress of an idle sink."""
        batch = LogBatch(self._token, self._encode(end), ())
        if self._with_patience(lambda: self._sink.apply(batch)):
            self._moved_to(end)

    def _with_patience(self, attempt: Callable[[], None]) -> bool:
        """Try until it works, unless the error can't get better; False when stopped meanwhile."""
        for number in itertools.count():
            try:
                attempt()
            except Exception as exc:
                retry = after_error(exc, number)
                if retry is None:
                    raise
                self.facts.retrying = str(exc)
                logger.warning(
                    "batch could not be applied, trying again", sink=self._sink_name, reason=str(exc)
                )
                if self._stopping.wait(retry.seconds):
                    return False
            else:
                self.facts.retrying = ""
                return True
        return False

    def _moved_to(self, end: Lsn) -> None:
        self._token = self._encode(end)
        self.facts.position = end
        self._moved_at = time.monotonic()
        failpoint("loop.before_release")
        try:
            self._consumers.release(self._sink_name, end)
        except OSError as exc:  # the log's disk is full: the next batch says it again
            logger.warning("log not released", sink=self._sink_name, reason=str(exc))
        failpoint("loop.after_release")

    def _encode(self, end: Lsn) -> str:
        return Progress(self._reader.meta.system_id, self._reader.meta.timeline, end).encode()
