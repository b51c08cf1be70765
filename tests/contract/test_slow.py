"""A slow sink: what waits for it waits on disk, and the memory of the pipeline stays where it is."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from pgsluice.changelog.position import Lsn
from pgsluice.modifiers.chain import Chain
from pgsluice.pipeline.loop import BatchOptions, SinkLoop
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.sinks.base import SinkContext
from pgsluice.testing.batches import Changes, table
from tests.contract.ways import write_log

if TYPE_CHECKING:
    from pathlib import Path

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
ALLOWED: Final = 30 * MIB  # over the warm size; 40 go through, and DuckDB keeps 16 until a checkpoint


class SlowSink:
    """Another sink, slowed down."""

    takes_chunks = True

    def __init__(self, sink: Sink, reached: threading.Event) -> None:
        self._sink = sink
        self._reached = reached
        self._applied = 0

    def open(self, context: SinkContext) -> str | None:
        """As the other."""
        return self._sink.open(context)

    def apply(self, batch: Batch) -> None:
        """As the other, later."""
        time.sleep(0.02)
        self._sink.apply(batch)
        self._applied += 1
        if self._applied * BATCH.max_bytes >= WARM * ROWS * ROW_BYTES:
            self._reached.set()

    def close(self) -> None:
        """As the other."""
        self._sink.close()


def backlog(log: Path) -> None:
    """A log that was filled much faster than the sink can write."""
    log.mkdir()
    changes = Changes()
    for transaction in range(TRANSACTIONS):
        body = chr(ord("a") + transaction % 26) * ROW_BYTES
        for key in range(ROWS):
            if transaction:
                changes.update(ITEMS, str(key), body)
            else:
                changes.insert(ITEMS, str(key), body)
        changes.commit()
    step = changes.step()
    write_log(log, step.rows, step.tables)


@pytest.mark.spark
@pytest.mark.only(ways=("short",), keeps_all=False)
def test_memory_stays_at_its_bound(run: Run, tmp_path: Path, spark: object) -> None:
    """60 MiB of log go through batches of 2 MiB; the memory after a third is the memory at the end."""
    backlog(tmp_path / "log")
    lazy = LazySpark(SparkOptions())
    lazy.get()
    warm = threading.Event()
    loop = SinkLoop(
        "target", SlowSink(run.target.sink(), warm), log=tmp_path / "log",
        context=SinkContext("slow", tmp_path), chain=Chain(), spark=lazy, catalog=None, wanted=None,
        options=BATCH,
    )  # fmt: skip
    loop.open()
    loop.stop_at(Lsn(1))
    loop.start()
    assert warm.wait(200)
    process = psutil.Process()
    start = peak = process.memory_info().rss
    while loop.is_alive():
        peak = max(peak, process.memory_info().rss)
        loop.join(0.01)
    assert loop.error is None
    assert loop.facts.changes == TRANSACTIONS * ROWS
    grown = (peak - start) // MIB
    print(f"{loop.facts.changes} changes, {loop.facts.batches} batches, {grown} MiB over the warm size")
    assert peak - start <= ALLOWED
