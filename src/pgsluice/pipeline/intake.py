"""
What a loop takes from the log next, and which way its rows come: through tasks, or by the driver alone.

Tasks earn their cost where a modifier has work for them, or where they run on other machines. Else they
would only bring rows back to where the log is; one pass of compiled code reads them faster than any
slot delivers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.pipeline.batch import SMALL_BYTES

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pgsluice.changelog.plan import LogSlice
    from pgsluice.changelog.position import Lsn
    from pgsluice.changelog.reader import LogReader
    from pgsluice.pipeline.config.targets import Decode
    from pgsluice.pipeline.session import LazySpark

_FILL_SECONDS: Final = 0.5  # under load, at most: a job costs as much CPU as some ten thousand rows
_FILL_LEAST: Final = 0.1  # also when nothing is arriving at the moment: the server may sort a transaction
_FILL_STEP: Final = 0.02


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How much a sink is given at a time."""

    max_bytes: int = 64 << 20  # of log; bounds what the driver and the target hold at once
    max_changes: int | None = None
    max_wait: float = 0.0  # seconds to let a batch fill; 0 takes what there is
    small_bytes: int = SMALL_BYTES  # up to it a batch is decoded on the driver
    without_spark_bytes: int = 8 << 20  # the same while Spark is not started and no modifier needs it
    queue_bytes: int = 64 << 20  # of log: how much is made ready while the sink writes; 0 for nothing
    decode: Decode = "auto"  # where larger batches are decoded that no modifier has to see


class Intake:
    """One loop's way of reading the log."""

    def __init__(
        self,
        reader: LogReader,
        options: BatchOptions,
        is_modified: Callable[[], bool],
        spark: LazySpark,
        *,
        takes_chunks: bool,
    ) -> None:
        self._reader = reader
        self._options = options
        self._is_modified = is_modified  # whether modifiers may have to see rows
        self._spark = spark
        self._takes_chunks = takes_chunks
        self.under_load = False  # whether the last batch went through tasks, and nothing was idle since

    @property
    def on_driver(self) -> bool:
        """Whether batches that are not small are decoded by the driver too."""
        if self._is_modified() or not self._takes_chunks:
            return False
        decode = self._options.decode
        return self._spark.is_local if decode == "auto" else decode == "driver"

    @property
    def waits(self) -> bool:
        """Whether batches are let fill."""
        return bool(self._options.max_wait)

    def is_small(self, slice_: LogSlice) -> bool:
        """Whether a slice is read at once, by the driver."""
        return slice_.bytes <= self._options.small_bytes or self._go_without_spark(slice_)

    def next(
        self, after: Lsn, until: Lsn | None, stopping: threading.Event, is_done: Callable[[Lsn], bool]
    ) -> LogSlice | None:
        """What follows ``after``; waits for more where that is worth it."""
        slice_ = self._read(after, until)
        options = self._options
        if slice_ is None or slice_.bytes >= options.max_bytes:
            return slice_
        if options.max_wait and not is_done(self._reader.end):
            return None if stopping.wait(options.max_wait) else self._read(after, until)
        if self.under_load and slice_.bytes > options.small_bytes:
            return self._fill(slice_, until, stopping)
        return slice_

    def read_large(self, after: Lsn, until: Lsn | None, most: int) -> LogSlice | None:
        """What follows a position, if that is much; a smaller batch had better grow meanwhile."""
        most = min(self._options.max_bytes, most)
        slice_ = self._read_up_to(after, until, most)
        if slice_ is None or slice_.changes_schema:  # its tables may be made by what comes before
            return None
        return slice_ if slice_.bytes > max(self._options.small_bytes, most // 2) else None

    def _fill(self, slice_: LogSlice, until: Lsn | None, stopping: threading.Event) -> LogSlice | None:
        """
        While one batch for tasks follows another, let each fill with what is arriving: fewer jobs.

        Not more than half of its bound: the other half is room for what comes while it is applied.
        """
        enough = self._options.max_bytes // 2
        began = time.monotonic()
        while slice_.bytes < enough:
            waited = time.monotonic() - began
            if waited >= _FILL_SECONDS or (waited >= _FILL_LEAST and not self._reader.is_arriving()):
                break
            if stopping.wait(_FILL_STEP):
                return None
            slice_ = self._read(slice_.start, until) or slice_
        return slice_

    def _read(self, after: Lsn, until: Lsn | None) -> LogSlice | None:
        options = self._options
        slice_ = self._read_up_to(after, until, options.max_bytes)
        if slice_ is None or slice_.bytes <= options.small_bytes or self._spark.ready or self.on_driver:
            return slice_
        if self._go_without_spark(slice_):
            return slice_
        # Small batches need no Spark: go on with those while it starts.
        self._spark.warm_up()
        return self._read_up_to(after, until, options.small_bytes)

    def _read_up_to(self, after: Lsn, until: Lsn | None, most: int) -> LogSlice | None:
        return self._reader.next(after, most, max_changes=self._options.max_changes, until=until)

    def _go_without_spark(self, slice_: LogSlice) -> bool:
        """
        Whether a batch is not worth starting Spark for.

        The driver decodes it alone, as it does small ones, and its memory is bounded all the same. Spark is
        started by the first backlog that is larger, or by a chain, and serves from then on.
        """
        if self._is_modified() or self._spark.ready:
            return False
        return slice_.bytes <= self._options.without_spark_bytes
