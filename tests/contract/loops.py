"""A sink's loop over a log that was made by hand: what a pipeline runs, without a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.changelog.reader import LogReader
from pgsluice.modifiers.chain import Chain
from pgsluice.pipeline.loop import BatchOptions, SinkLoop
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.sinks.base import SinkContext
from tests.contract.ways import write_log

if TYPE_CHECKING:
    from pathlib import Path

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
        self.sink = sink
        self.takes_chunks = getattr(sink, "takes_chunks", False)
        self.keeps_progress = getattr(sink, "keeps_progress", True)

    def open(self, context: SinkContext) -> str | None:
        """As the other."""
        return self.sink.open(context)

    def apply(self, batch: Batch) -> None:
        """As the other."""
        self.sink.apply(batch)

    def close(self) -> None:
        """As the other."""
        self.sink.close()
