"""A slow sink: what waits for it waits on disk, and the memory of the pipeline stays where it is."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import psutil
import pytest

from pgsluice.pipeline.intake import BatchOptions
from pgsluice.testing.batches import Changes, table
from tests.contract.loops import Wrapped, make_log, make_loop

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.sinks.base import Batch, Sink
    from tests.contract.conftest import Run

MIB: Final = 1 << 20
ITEMS = table("public.items", {"id": "int8", "body": "text"}, key=["id"])
ROW_BYTES: Final = 16 << 10
ROWS: Final = 32  # that are written over and over, so that the target itself stays small
TRANSACTIONS: Final = 120  # of 512 KiB: 60 MiB of log
WARM: Final = 40  # transactions after which the allocators have what they need
BATCH: Final = BatchOptions(
    max_bytes=2 * MIB, small_bytes=MIB // 4, queue_bytes=2 * MIB, without_spark_bytes=0
)
ALLOWED: Final = 30 * MIB  # over the warm size, each; 40 go through, DuckDB keeps 16 until a checkpoint


class SlowSink(Wrapped):
    """Another sink, slowed down."""

    def __init__(self, sink: Sink, reached: threading.Event) -> None:
        super().__init__(sink)
        self._reached = reached
        self._applied = 0

    def apply(self, batch: Batch) -> None:
        """As the other, later."""
        time.sleep(0.02)
        super().apply(batch)
        self._applied += 1
        if self._applied * BATCH.max_bytes >= WARM * ROWS * ROW_BYTES:
            self._reached.set()


def backlog() -> Changes:
    """What was written much faster than the sink can."""
    changes = Changes()
    for transaction in range(TRANSACTIONS):
        body = chr(ord("a") + transaction % 26) * ROW_BYTES
        for key in range(ROWS):
            if transaction:
                changes.update(ITEMS, str(key), body)
            else:
                changes.insert(ITEMS, str(key), body)
        changes.commit()
    return changes


@pytest.mark.spark
@pytest.mark.only(ways=("short",), keeps_all=False)
def test_memory_stays_at_its_bound(run: Run, tmp_path: Path, spark: SparkSession) -> None:
    """60 MiB of log go through batches of 2 MiB; the memory after a third is the memory at the end."""
    make_log(tmp_path, backlog())
    warm = threading.Event()
    loop = make_loop(SlowSink(run.target.sink(), warm), tmp_path, BATCH)
    loop.start()
    assert warm.wait(200), loop.error
    start = peak = resident()
    assert start["worker"] > 0
    live = live_heap(spark)
    while loop.is_alive():
        peak = {kind: max(size, peak[kind]) for kind, size in resident().items()}
        loop.join(0.02)
    assert loop.error is None
    assert loop.facts.changes == TRANSACTIONS * ROWS
    grown = {kind: peak[kind] - start[kind] for kind in peak} | {"heap": live_heap(spark) - live}
    shown = ", ".join(f"{kind} {size / MIB:.0f} MiB" for kind, size in grown.items())
    print(f"{loop.facts.changes} changes, {loop.facts.batches} batches; over the warm size: {shown}")
    assert max(grown.values()) <= ALLOWED


def resident() -> dict[str, int]:
    """The bytes that this process holds, and those of the largest of Spark's Python workers."""
    ours = psutil.Process()
    largest = 0
    for process in ours.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            if "python" in process.name() and "pyspark.daemon" in process.cmdline():
                largest = max(largest, process.memory_info().rss)
    return {"driver": ours.memory_info().rss, "worker": largest}


def live_heap(spark: SparkSession) -> int:
    """
    The bytes of the JVM that are still in use after its garbage is gone.

    What the process holds would not tell: a JVM lets garbage grow to its bound of its own, -Xmx.
    """
    jvm: Any = spark.sparkContext._jvm
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())
