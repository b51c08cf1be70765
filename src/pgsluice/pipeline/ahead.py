"""
Reading ahead: the next large batch is decoded while the sink writes the present one.

Only a batch that waits in the log already, at least half full, is made ready; another had better grow
meanwhile. What is ready are files in the state directory, of at most ``queue_bytes`` of log.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pgsluice.changelog.position import Lsn
from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgsluice.changelog.plan import LogSlice
    from pgsluice.pipeline.batch import LogStep


class ReadAhead:
    """At most one batch that is being made ready, after the one that is being written."""

    def __init__(self, queue_bytes: int) -> None:
        self._queue_bytes = queue_bytes
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._present: LogStep | None = None
        self._next: tuple[LogSlice, LogStep] | None = None

    def take(self) -> tuple[LogSlice, LogStep] | None:
        """The batch that was made ready, or None; it is the caller's from now on."""
        taken, self._next = self._next, None
        return taken

    @property
    def end(self) -> Lsn:
        """Where the batch that was made ready ends; 0 without one."""
        return self._next[0].end if self._next else Lsn(0)

    def begin(
        self, step: LogStep, read: Callable[[int], LogSlice | None], make: Callable[[LogSlice], LogStep]
    ) -> None:
        """
        Begin with a step that is about to be written, then with the one after it.

        ``read`` gives what follows, up to so many bytes, if that is much; ``make`` its step.
        """
        if not self._queue_bytes:
            return
        self._present = step
        step.make_ready(self._workers)
        if self._next is None and (slice_ := read(self._queue_bytes)) is not None:
            # One transaction may be larger than the queue.
            if slice_.bytes > self._queue_bytes:
                return
            try:
                self._next = slice_, make(slice_)
            except SluiceError:
                return  # said again, and waited for, when it is this batch's turn
            self._next[1].make_ready(self._workers)

    def close(self) -> None:
        """Remove what nobody took."""
        for step in (self._present, self._next and self._next[1]):
            if step is not None:
                step.discard()
        self._workers.shutdown()
