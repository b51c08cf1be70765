"""
Where one sink stands in the log, and every step that it takes from there.

The sink keeps the truth, with its rows (:class:`pgsluice.changelog.position.Progress`); here is what its loop
knows of it. The log is let go of behind it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Progress
from pgsluice.changelog.reader import LogReader
from pgsluice.observability.failpoints import failpoint
from pgsluice.pipeline.batch import LogBatch
from pgsluice.pipeline.loop_facts import LoopFacts
from pgsluice.pipeline.policy import with_patience
from pgsluice.pipeline.trouble import TroubleNote
from pgsluice.pipeline.unidentified import UnidentifiedNote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pgsluice.changelog.position import Copies, Lsn
    from pgsluice.pipeline.batch import LogStep
    from pgsluice.pipeline.late_views import Views
    from pgsluice.schema.renames import Renames
    from pgsluice.sinks.base import Sink, Swap

logger = structlog.get_logger(__name__)


class Standing:
    """Position, token and copies of one sink. Moved by its loop's thread alone."""

    def __init__(self, name: str, sink: Sink, log: Path, renames: Renames, state_dir: Path) -> None:
        self.name = name
        self.sink = sink
        self.reader = LogReader(log)
        self.consumers = Consumers(log)
        self.renames = renames
        self.facts = LoopFacts(
            note=TroubleNote(state_dir, name), unidentified=UnidentifiedNote(state_dir, name)
        )
        self.stopping = threading.Event()
        self.token: str | None = None  # None: a sink that keeps nothing yet
        self.copies: Copies | None = None
        self.left_alone: tuple[int, ...] = ()  # tables that are copied anew, beside
        self.late_views: Views = ()  # to be filled when no table is left alone any more
        self.replays = 0
        self._moved_at = time.monotonic()

    @property
    def position(self) -> Lsn:
        """Everything before it is applied."""
        return self.facts.position

    @property
    def copied_tables(self) -> set[int]:
        """The tables that the sink holds copies of."""
        return self.copies.tables if self.copies is not None else set()

    @property
    def quiet_seconds(self) -> float:
        """How long it has not moved."""
        return time.monotonic() - self._moved_at

    def take_up(self, token: str | None) -> Progress | None:
        """Go on from what the sink has kept."""
        self.token, progress, position = token, None, self.reader.first_lsn
        if token is not None:
            progress = Progress.decode(token)
            progress.require_system(self.reader.meta.system_id, self.name)
            progress.require_names(str(self.renames), self.name)
            position, self.copies = progress.end_lsn, progress.copies
            self.left_alone, self.late_views = progress.anew, progress.views
            self.replays = progress.replays
        self.facts.position = position
        return progress

    def has_passed(self, lsn: Lsn) -> bool:
        """Whether everything up to a place is applied."""
        reader = self.reader
        return self.position >= lsn or (
            reader.end >= lsn and reader.next(self.position, 1, until=lsn) is None
        )

    def progress(self, end: Lsn) -> Progress:
        """What the sink has to keep when everything up to ``end`` is applied."""
        meta = self.reader.meta
        return Progress(
            meta.system_id,
            meta.timeline,
            end,
            self.copies,
            self.left_alone,
            self.replays,
            str(self.renames),
            self.late_views,
        )

    def keep(self, progress: Progress, swaps: Sequence[Swap] = ()) -> bool:
        """Let the sink keep another progress, without rows; False when stopped before."""
        batch = LogBatch(self.token, progress.encode(), (), swaps)
        if not self.with_patience(lambda: self.sink.apply(batch)):
            return False
        self.move(progress.end_lsn, batch.end)
        return True

    def applied(self, end: Lsn, token: str, changes: int, steps: Sequence[LogStep] = ()) -> None:
        """The sink has taken a batch."""
        self.move(end, token)
        self.facts.batches += 1
        self.facts.changes += changes
        self.facts.count_unidentified(*(step.without_identity() for step in steps))

    def move(self, end: Lsn, token: str) -> None:
        """The sink keeps this token now; the log before it may go."""
        self.token = token
        self.facts.position = end
        self._moved_at = time.monotonic()
        failpoint("loop.before_release")
        try:
            self.release()
        except OSError as exc:  # the log's disk is full: the next batch says it again
            logger.warning("log not released", sink=self.name, reason=str(exc))
        failpoint("loop.after_release")

    def release(self) -> None:
        """Let go of the log up to here, and hold the rest."""
        self.consumers.release(self.name, self.position)

    def with_patience(self, attempt: Callable[[], None]) -> bool:
        """Try until it works, unless the error can't get better; False when stopped meanwhile."""
        done = with_patience(attempt, self.stopping, self.note_retry)
        if done:
            self.facts.go_on()
        return done

    def note_retry(self, exc: Exception) -> None:
        """The target can't take something now."""
        self.facts.try_again(exc)
        logger.warning("batch could not be applied, trying again", sink=self.name, reason=str(exc))
