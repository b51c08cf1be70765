"""Reading ahead: the next batch is decoded while the sink writes, and nothing of it is lost or left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from pgsluice.errors import TargetError, TargetUnavailableError
from pgsluice.pipeline.intake import BatchOptions
from pgsluice.sinks.memory import MemorySink, MemoryStore
from pgsluice.testing.batches import Changes, table
from tests.contract.loops import make_log, make_loop, run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.pipeline.loop import SinkLoop
    from pgsluice.sinks.base import Batch

ITEMS = table("public.items", {"id": "int8", "body": "text"}, key=["id"])
BATCH = BatchOptions(decode="tasks", max_bytes=4000, small_bytes=1, queue_bytes=4000)
TRANSACTIONS = 12
ROWS = 20  # of a transaction; about 2 kB of log


class WatchedSink(MemorySink):
    """Calls a function when a batch is about to be written."""

    def __init__(self, before: Callable[[int], None]) -> None:
        self.store = MemoryStore()
        super().__init__(self.store)
        self._before = before
        self.calls = 0

    def apply(self, batch: Batch) -> None:
        """Write, after the function."""
        self.calls += 1
        self._before(self.calls)
        super().apply(batch)


@pytest.fixture
def loop(tmp_path: Path, spark: SparkSession) -> Callable[..., SinkLoop]:
    """Makes a loop over a log of several batches, with Spark running."""
    changes = Changes()
    for number in range(TRANSACTIONS * ROWS):
        changes.insert(ITEMS, str(number), "x" * 60)
        if number % ROWS == ROWS - 1:
            changes.commit()
    make_log(tmp_path, changes)

    def make(sink: MemorySink, options: BatchOptions = BATCH) -> SinkLoop:
        return make_loop(sink, tmp_path, options)

    return make


def staged(directory: Path) -> int:
    """How many batches lie decoded on the disk."""
    return len(list(directory.glob("batch-*")))


def keys(sink: WatchedSink) -> list[int]:
    """The keys of all rows that were applied, in order."""
    return [int(values[0]) for values in sink.store.rows()["values"].to_pylist()]


@pytest.mark.spark
def test_the_next_batch_is_decoded_while_the_sink_writes(
    loop: Callable[..., SinkLoop], tmp_path: Path
) -> None:
    """Two batches are there at once: the present one and the next; all rows come once and in order."""
    seen = []

    def wait_and_count(call: int) -> None:
        deadline = time.monotonic() + 120
        while call == 1 and staged(tmp_path) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(staged(tmp_path))

    sink = WatchedSink(wait_and_count)
    made = loop(sink)
    run_to_end(made)
    assert made.error is None
    assert seen[0] == 2
    assert max(seen) == 2, "more was made ready than queue_bytes allows"
    assert keys(sink) == list(range(TRANSACTIONS * ROWS))
    assert staged(tmp_path) == 0
    print(f"compared {len(keys(sink))} rows in {sink.calls} batches, staged {seen}")


@pytest.mark.spark
def test_without_a_queue_nothing_is_read_ahead(loop: Callable[..., SinkLoop], tmp_path: Path) -> None:
    """``queue_bytes: 0`` leaves the disk alone until a batch's turn has come."""
    seen = []
    sink = WatchedSink(lambda _: seen.append(staged(tmp_path)))
    made = loop(sink, BatchOptions(decode="tasks", max_bytes=4000, small_bytes=1, queue_bytes=0))
    run_to_end(made)
    assert made.error is None
    assert set(seen) == {0}
    assert keys(sink) == list(range(TRANSACTIONS * ROWS))


@pytest.mark.spark
def test_a_batch_that_is_tried_again_is_whole(loop: Callable[..., SinkLoop], tmp_path: Path) -> None:
    """A target that is away for a moment, before or after it read its rows, gets them all, once."""

    def fail_sometimes(call: int) -> None:
        if call in (1, 3):
            raise TargetUnavailableError("away for a moment")

    sink = WatchedSink(fail_sometimes)
    made = loop(sink)
    run_to_end(made)
    assert made.error is None
    assert keys(sink) == list(range(TRANSACTIONS * ROWS))
    assert staged(tmp_path) == 0


@pytest.mark.spark
def test_a_loop_that_fails_leaves_no_files(loop: Callable[..., SinkLoop], tmp_path: Path) -> None:
    """What was made ready for the failed batch and for the next is removed."""

    def fail(call: int) -> None:
        if call == 2:
            raise TargetError("a row that does not fit")

    sink = WatchedSink(fail)
    made = loop(sink)
    run_to_end(made)
    assert isinstance(made.error, TargetError)
    assert staged(tmp_path) == 0
    assert keys(sink) == list(range(len(keys(sink))))
