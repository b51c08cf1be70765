"""
The change log as one running query reads it. Lives in the process that Spark starts for the query's reader.

Puts the parts together: the listener where a URL was given, a bounded reader, the consumer that holds
segments, and the table's guard where columns are typed. A thread says that the query lives (Spark may be
busy with one batch for hours) and looks after the listener.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.position import Lsn
from pgsluice.errors import (
    ConfigError,
    GapError,
    LogError,
    SinkBehindLogError,
    SluiceError,
    TableChangedError,
)
from pgsluice.schema.store import SchemaStore
from pgsluice.source.query import consumer
from pgsluice.source.query.bounded import NO_END, UNLIMITED, BoundedReader
from pgsluice.source.query.listening import SourceListener
from pgsluice.source.query.opening import relations_of, typed_table
from pgsluice.source.query.options import EARLIEST, LATEST
from pgsluice.source.query.planning import in_ranges, tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from pgsluice.changelog.plan import LogSlice
    from pgsluice.source.query.options import ReadOptions
    from pgsluice.source.query.partition import LogPartition

_TICK_SECONDS: Final = 5.0
_CATCH_UP_SECONDS: Final = 10.0  # for a log that lost its tail in a power cut to be read from the slot again
_WAIT_SECONDS: Final = 0.2


class QueryLog:
    """What one query sees of a log."""

    def __init__(self, options: ReadOptions, columns: StructType) -> None:
        self._options = options
        self._columns = columns
        self._failure: SluiceError | None = None
        self._target: Lsn | None = None
        self._idle: tuple[object, ...] | None = None
        self._listener = SourceListener(options) if options.url is not None else None
        if self._listener is not None:
            self._listener.ensure()
        self._reader = BoundedReader(options.log)
        self.system = self._reader.meta.system_id
        self._consumer = consumer.QueryConsumer(options.log, options.consumer)
        self._consumer.acquire()
        consumer.expire(options.log)
        self._store = SchemaStore(options.log / "schema.db")
        self._relations = relations_of(options, self._listener, self._store)
        self._table = typed_table(options, self._reader, self._relations)
        self._holding = False
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="query-watch", daemon=True).start()

    def initial(self) -> Lsn:
        """
        Where a query without a committed batch starts; holds the log from there.

        Spark asks again after a crash in the first batch. "The present" is then where that query began.
        """
        with _log_there(self._options):
            if self._options.start == LATEST:
                position = self._held() or self._reach_the_present()
            else:
                position = self._wished_start()
            self._consumer.release(position)
            self._holding = True
            return position

    def resume_point(self) -> Lsn:
        """Where the query may have been, as far as can be known without its checkpoint (PySpark 4.1)."""
        return self._held() or self.initial()

    def next_end(self, start: Lsn, *, max_bytes: int = UNLIMITED, max_changes: int | None = None) -> Lsn:
        """The end of the next batch: a transaction's end; ``start`` itself when there is nothing new."""
        with _log_there(self._options):
            self._hold(start)
            asked = (start, max_bytes, max_changes)
            while True:
                self._raise_failure()
                if asked != self._idle or self._reader.wait(0):
                    end = self._look(start, max_bytes, max_changes)
                    self._idle = asked if end is None else None
                    if end is not None:
                        return end
                if self._target is None or self._reader.end >= self._target:
                    return start
                self._reader.wait(_WAIT_SECONDS)
                self._idle = None

    def partitions(self, start: Lsn, end: Lsn) -> list[LogPartition]:
        """The tasks of one batch."""
        if end < start:
            self._consumer.release(start)
            raise GapError(f"a batch from {start} back to {end}", remedy="Start the query again")
        if end == start:
            return []
        with _log_there(self._options):
            self._hold(start)
            self._wait_for(end)
            slice_ = in_ranges(self._reader, start, end, self._options)
            if slice_ is None or slice_.end != end:
                raise self._gap(end)
            # A batch that an earlier query planned and did not come to finish may have other columns.
            if self._end_of_layout(slice_) < end:
                raise TableChangedError(
                    f"the batch from {start} to {end} was planned with other columns than this query has",
                    remedy="Use a new checkpoint directory and this startingPosition: " + str(start),
                )
            return tasks(slice_, self._relations, self._columns, self._options)

    def release(self, lsn: Lsn) -> None:
        """Let go of everything up to ``lsn``: the query has it in its checkpoint."""
        with _log_there(self._options):
            self._consumer.release(lsn)

    def stop_at_present(self) -> None:
        """Let the query end once it has read what the source, or the log alone, has now."""
        with _log_there(self._options):
            self._reader.wait(0)
            self._target = self._listener.current_lsn() if self._listener else self._reader.end

    def end(self) -> Lsn:
        """Up to where the log reaches now."""
        return self._reader.end

    def close(self) -> None:
        """Let the next run of the query have the consumer."""
        self._closing.set()
        self._consumer.close()
        self._store.close()

    def _look(self, start: Lsn, max_bytes: int, max_changes: int | None) -> Lsn | None:
        slice_ = self._reader.between(
            start,
            self._target or NO_END,
            max_bytes=max_bytes,
            max_changes=max_changes,
            range_bytes=UNLIMITED,
        )
        return self._end_of_layout(slice_) if slice_ else None

    def _end_of_layout(self, slice_: LogSlice) -> Lsn:
        """Up to where a batch may go: not into rows with other columns."""
        if self._table is None:
            return slice_.end
        try:
            return self._table.end_of_layout(slice_, self._columns)
        except SluiceError:
            # The next query is made with the columns that rows have from here on.
            self._consumer.release(slice_.start)
            raise

    def _hold(self, start: Lsn) -> None:
        """The first time: take the checkpoint's word for where the query is."""
        if self._holding:
            return
        before = self._held()
        self._consumer.release(start)  # before looking, so that nothing goes in between
        self._reader.wait(0)
        if start < self._reader.first_lsn:
            self._consumer.restore(before)
            raise SinkBehindLogError(
                f"the query's checkpoint stands at {start}, but changes from there to "
                f"{self._reader.first_lsn} are no longer in the change log {self._options.log}",
                remedy="Restore the log, or copy the tables again and start with a new checkpoint directory",
                after=str(start),
                first=str(self._reader.first_lsn),
            )
        self._wait_for(start)
        self._holding = True

    def _held(self) -> Lsn | None:
        return consumer.held_from(self._options.log, self._options.consumer)

    def _wait_for(self, lsn: Lsn) -> None:
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while self._reader.end < lsn:
            self._raise_failure()
            if time.monotonic() > deadline:
                raise self._gap(lsn)
            self._reader.wait(_WAIT_SECONDS)

    def _gap(self, lsn: Lsn) -> GapError:
        return GapError(
            f"the query's checkpoint stands at {lsn}, but the change log {self._options.log} "
            f"ends at {self._reader.end}",
            remedy="It was made from another log, or the source was put back to an older state: "
            "copy the tables again and start with a new checkpoint directory",
        )

    def _wished_start(self) -> Lsn:
        wish = self._options.start
        while wish == EARLIEST:
            first = self._reader.first_lsn
            self._consumer.release(first)
            self._reader.wait(0)
            if first == self._reader.first_lsn:  # no segment went before we held it
                return first
        assert isinstance(wish, Lsn)
        if not self._reader.first_lsn <= wish <= self._reader.end:
            raise ConfigError(
                f"the log has nothing at startingPosition {wish}: it reaches from {self._reader.first_lsn} "
                f"to {self._reader.end}",
                remedy="Choose a position of the log, earliest or latest",
            )
        return wish

    def _reach_the_present(self) -> Lsn:
        goal = self._listener.current_lsn() if self._listener else Lsn(0)
        while True:
            end = self._reader.end
            if end >= goal:
                return end
            self._consumer.release(end)
            self._raise_failure()
            self._reader.wait(_WAIT_SECONDS)

    def _watch(self) -> None:
        tick = min(_TICK_SECONDS, self._options.lease / 4)
        while not self._closing.wait(tick):
            try:
                with _log_there(self._options):
                    self._consumer.touch()
                    if self._listener is not None:
                        self._listener.check()
            except SluiceError as exc:
                self._failure = exc
                return

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


@contextlib.contextmanager
def _log_there(options: ReadOptions) -> Iterator[None]:
    """Say in our words that the log was deleted, and make no new directory where it was."""
    gone = LogError(
        f"the change log {options.log} is gone",
        remedy="Restore it, or copy the tables again and start with a new checkpoint directory",
    )
    if not (options.log / "meta.json").exists():
        raise gone
    try:
        yield
    except FileNotFoundError as exc:
        raise gone from exc
