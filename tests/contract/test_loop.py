"""Sinks under the loop that feeds them: large transactions, lost replies, tasks that run twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice.observability.failpoints import VARIABLE
from pgsluice.pipeline.intake import BatchOptions
from pgsluice.testing.batches import Changes, table
from tests.contract.loops import LosesReplies, Wrapped, make_log, make_loop, run_to_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.sinks.base import Batch
    from tests.contract.conftest import Run

pytestmark = [pytest.mark.spark, pytest.mark.only(ways=("executors",))]

# Without a key, so that a row that came twice is there twice.
ITEMS = table("public.items", {"id": "int8", "body": "text"}, identity="f")
TINY = BatchOptions(decode="tasks", max_bytes=1000, small_bytes=1)
ROWS = 60
ALL = [str(number) for number in range(10, 10 + ROWS)]  # as many digits each: their order as text is theirs


def three_transactions() -> Changes:
    """The one in the middle is far larger than a batch may be."""
    changes = Changes()
    for key in ALL:
        changes.insert(ITEMS, key, "x" * 200)
        if key in (ALL[0], ALL[-2], ALL[-1]):
            changes.commit()
    return changes


def keys(run: Run) -> list[str]:
    """The keys that the target holds: of a table, or of lines in their order."""
    if run.target.holds == "lines":
        return [str(line["columns"][0]["value"]) for line in run.target.lines()]
    return [str(row[0]) for row in run.target.tables()["public.items"]]


class Counting(Wrapped):
    """Remembers how many rows each batch had."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.target.sink())
        self.sizes: list[int] = []
        self._run = run

    def apply(self, batch: Batch) -> None:
        """Write, and see what came with it."""
        before = len(keys(self._run)) if self.sizes else 0
        super().apply(batch)
        self.sizes.append(len(keys(self._run)) - before)


def test_a_transaction_larger_than_a_batch(run: Run, tmp_path: Path) -> None:
    """It is never cut: its rows come together, in one batch, although that is larger than ``max_bytes``."""
    make_log(tmp_path, three_transactions())
    sink = Counting(run)
    loop = make_loop(sink, tmp_path, TINY)
    run_to_end(loop)
    assert loop.error is None
    assert sink.sizes == [1, ROWS - 2, 1]
    assert keys(run) == ALL


def test_failure_after_the_write(run: Run, tmp_path: Path) -> None:
    """The same batches come again: no row is there twice; lines are, each batch whole and in order."""
    make_log(tmp_path, three_transactions())
    sink = LosesReplies(run.target.sink())
    loop = make_loop(sink, tmp_path, TINY)
    run_to_end(loop)
    assert loop.error is None
    assert len(sink.failed) == 3
    once = [ALL[:1], ALL[1:-1], ALL[-1:]]
    again = [key for part in once for key in part * 2]
    assert keys(run) == (again if run.target.guarantee == "at least once" else ALL)


class Dying(Wrapped):
    """Writes the first batch, and that was all."""

    def apply(self, batch: Batch) -> None:
        """Write, and end."""
        super().apply(batch)
        raise SystemExit


def test_a_run_that_died_after_the_write(run: Run, tmp_path: Path) -> None:
    """A new run over the same log finds the target where it is; lines that were not let go come again."""
    make_log(tmp_path, three_transactions())
    first = Dying(run.target.sink())
    loop = make_loop(first, tmp_path, TINY)
    run_to_end(loop)
    assert isinstance(loop.error, SystemExit)
    loop = make_loop(run.target.sink(), tmp_path, TINY)
    run_to_end(loop)
    assert loop.error is None
    assert keys(run) == ([ALL[0], *ALL] if run.target.guarantee == "at least once" else ALL)


def test_a_task_that_runs_twice(run: Run, tmp_path: Path, spark: SparkSession) -> None:
    """Its worker is killed when its rows are ready; only the attempt that reported counts."""
    place = "task.after_decode" if run.target.holds == "lines" else "task.after_write"
    mark = tmp_path / "mark"
    sink, _ = run.open()
    spark.sparkContext.environment[VARIABLE] = f"{place}@{mark}"
    try:
        sink.apply(run.batch(three_transactions(), None, "one"))
    finally:
        del spark.sparkContext.environment[VARIABLE]
    assert mark.exists(), "no worker was killed"
    assert keys(run) == ALL
