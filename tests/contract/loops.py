"""A sink's loop over a log that was made by hand: what a pipeline runs, without a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.changelog.reader import LogReader
from pgsluice.errors import TargetUnavailableError
from pgsluice.modifiers.chain import Chain
from pgsluice.pipeline.loop import SinkLoop
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.sinks.base import SinkContext
from tests.contract.ways import write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.pipeline.intake import BatchOptions
    from pgsluice.sinks.base import Batch, Sink
    from pgsluice.testing.batches import Changes


def make_log(place: Path, changes: Changes) -> None:
    """Write changes as the log of a state directory."""
    log = place / "log"
    log.mkdir()
    step = changes.step()
    write_log(log, step.rows, step.tables)


def make_loop(sink: Sink, place: Path, options: BatchOptions) -> SinkLoop:
    """A loop over the log there, opened, that ends when everything is applied; needs the tests' Spark."""
    spark = LazySpark(SparkOptions())
    spark.get()  # the session of the tests
    loop = SinkLoop(
        "target", sink, log=place / "log", context=SinkContext("test", place), chain=Chain(),
        spark=spark, catalog=None, wanted=None, options=options,
    )  # fmt: skip
    loop.open()
    loop.stop_at(LogReader(place / "log").end)
    return loop


def run_to_end(loop: SinkLoop) -> None:
    """Run a loop until it ends by itself."""
    loop.start()
    loop.join(240)
    assert not loop.is_alive()


class Wrapped:
    """Another sink, as the loop sees it; tests override ``apply``."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __getattr__(self, name: str) -> Any:
        """As the other."""
        return getattr(self._sink, name)

    def apply(self, batch: Batch) -> None:
        """As the other."""
        self._sink.apply(batch)


class LosesReplies(Wrapped):
    """Writes each batch, then says that the target went away: nobody knows whether it was written."""

    failed: frozenset[str] = frozenset()

    def apply(self, batch: Batch) -> None:
        """Write; the first time for each batch the reply is lost."""
        super().apply(batch)
        if batch.end not in self.failed:
            self.failed |= {batch.end}
            raise TargetUnavailableError("the reply was lost")
