"""Tasks of a copy that run twice, at the same time, or too late: no row of a range comes twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import PostgresSink
from pgsluice.errors import TargetFencedError
from pgsluice.observability.failpoints import VARIABLE
from pgsluice.pipeline.batch import LogStep
from pgsluice.pipeline.copy_report import read_reports
from pgsluice.sinks.base import SinkContext
from pgsluice.source.snapshot import ranges
from tests.pipeline.test_copy import by_tasks, compare_databases, cut_small, filled, pipeline
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.sinks.base import Batch, RawRange
    from tests.fix_pg import Database

    Work = Callable[[RawRange], int]

__all__ = ["by_tasks", "filled"]

WAITS = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'pgsluice sink' AND wait_event_type = 'Lock'"
)


class Attempt:
    """A task that stands still in the middle of its rows until it is let go."""

    def __init__(self) -> None:
        self.standing = threading.Event()
        self.go_on = threading.Event()
        self.fails = False

    def wait(self) -> None:
        """In the middle."""
        self.standing.set()
        assert self.go_on.wait(60)
        if self.fails:
            raise RuntimeError("its worker is gone")


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """The task that reads the first range of the large table, the first time."""
    cut_small(monkeypatch)
    attempt = Attempt()
    real, begun = ranges.CopyRange.pieces, []

    def pieces(part: ranges.CopyRange, columns: Any, *, binary: bool) -> Iterator[memoryview]:
        stands = part.heap.name == "item" and not begun
        begun.extend([part] if part.heap.name == "item" else [])
        for piece in real(part, columns, binary=binary):
            yield piece
            if stands:
                stands = False
                attempt.wait()

    monkeypatch.setattr(ranges.CopyRange, "pieces", pieces)
    return attempt


def by_hand(monkeypatch: pytest.MonkeyPatch, hand: Callable[[Work, Sequence[RawRange]], list[int]]) -> None:
    """Let a test carry out the tasks of each batch."""
    monkeypatch.setattr(LogStep, "each_range", lambda step, work: hand(work, step.ranges))


@pytest.mark.parametrize("fails", [False, True], ids=["the first ends", "the first dies"])
def test_two_attempts_at_once(
    filled: Database,
    target_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Attempt,
    *,
    fails: bool,
) -> None:
    """As a speculative task, or one whose first worker was only thought to be gone: one of both writes."""
    first.fails = fails
    found: list[tuple[int | None, int]] = []  # rows, as both attempts have them

    def twice(work: Work, parts: Sequence[RawRange]) -> list[int]:
        before = len(found)
        for part in parts:
            with ThreadPoolExecutor(2) as pool:
                one = pool.submit(work, part)
                wait_until(lambda one=one: one.done() or first.standing.is_set())
                other = pool.submit(work, part)
                if not one.done() and not first.go_on.is_set():
                    wait_until(lambda: target_database.rows(WAITS))
                    assert not other.done()
                    first.go_on.set()
                found.append((None if one.exception() else one.result(), other.result()))
        return [rows for _, rows in found[before:]]

    by_hand(monkeypatch, twice)
    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    assert sum(one is None for one, _ in found) == fails
    assert all(one in (None, other) for one, other in found)
    compare_databases(filled, target_database)
    (report,) = read_reports(tmp_path / "state")
    assert {table.table: table.rows for table in report.tables}["public.item"] == 4000


def test_an_attempt_that_comes_too_late(
    filled: Database, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was given up wakes up when its batch is finished and its marks are gone."""
    cut_small(monkeypatch)
    done: list[tuple[Work, RawRange]] = []
    late: list[int] = []

    def remember(work: Work, parts: Sequence[RawRange]) -> list[int]:
        done.extend((work, part) for part in parts)
        return [work(part) for part in parts]

    class Late(PostgresSink):
        def apply(self, batch: Batch) -> None:
            super().apply(batch)
            late.extend(work(part) for work, part in done)
            done.clear()

    by_hand(monkeypatch, remember)
    pipeline(filled, Late(target_database.url), tmp_path).run(once=True)
    assert len(late) > 10
    assert not any(late)
    assert target_database.rows("SELECT count(*) FROM pgsluice.copied_range") == [(0,)]
    compare_databases(filled, target_database)


def test_a_second_driver_takes_over(
    filled: Database,
    target_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Attempt,
) -> None:
    """It waits for tasks that are writing, and keeps out those that begin later; what they wrote goes."""
    second = PostgresSink(target_database.url)
    refused: list[str] = []

    def taken_over(work: Work, parts: Sequence[RawRange]) -> list[int]:
        parts = [part for part in parts if part.heap.name == "item"]  # type: ignore[attr-defined]
        with ThreadPoolExecutor(2) as pool:
            one = pool.submit(work, parts[0])
            assert first.standing.wait(60)
            opening = pool.submit(second.open, SinkContext("main", tmp_path / "state"))
            wait_until(lambda: target_database.rows(WAITS))
            assert not opening.done()
            first.go_on.set()
            assert one.result() > 0
            opening.result()
        for part in parts[1:]:
            with pytest.raises(TargetFencedError, match="has begun to copy") as caught:
                work(part)
            refused.append(str(caught.value))
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        by_hand(patched, taken_over)
        with pytest.raises(RuntimeError, match="killed"):
            pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    second.close()
    assert refused
    assert target_database.rows("SELECT count(*) > 0 FROM item") == [(True,)]
    filled.run("UPDATE item SET price = 0 WHERE id % 10 = 0")
    monkeypatch.setattr("pgsluice.pipeline.copy.SMALL_BYTES", 1 << 30)
    pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    compare_databases(filled, target_database)


@pytest.mark.spark
@pytest.mark.usefixtures("by_tasks")
def test_a_worker_that_is_killed(
    filled: Database, target_database: Database, tmp_path: Path, spark: SparkSession
) -> None:
    """Before its rows are committed: Spark runs the task again, and the server takes the first ones back."""
    mark = tmp_path / "mark"
    spark.sparkContext.environment[VARIABLE] = f"task.before_commit@{mark}"
    try:
        pipeline(filled, PostgresSink(target_database.url), tmp_path).run(once=True)
    finally:
        del spark.sparkContext.environment[VARIABLE]
    assert mark.exists(), "no worker was killed"
    compare_databases(filled, target_database)
