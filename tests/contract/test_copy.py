"""Sinks under the first copy: tables of a real source, lost replies, runs that die, tasks that run twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import Pipeline, PostgresSource
from pgsluice.observability.failpoints import VARIABLE
from pgsluice.pipeline import copy, copy_plan
from pgsluice.source.snapshot import ranges
from tests.contract.loops import LosesReplies, Wrapped
from tests.contract.targets import in_order
from tests.fix_pg import create_database, drop_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.embedded import EmbeddedPostgres
    from pgsluice.sinks.base import Batch, Sink
    from tests.contract.conftest import Run
    from tests.contract.targets import Row
    from tests.fix_pg import Database

pytestmark = [pytest.mark.spark, pytest.mark.only(copied=True)]

TABLES = ("items", "notes")
IN_TASKS = pytest.mark.only(copied=True, ways=("executors",))


@pytest.fixture
def source(pg18: EmbeddedPostgres) -> Iterator[Database]:
    """A table of some ranges, and one without a key that holds every row three times."""
    made = create_database(pg18)
    made.run(
        "CREATE TABLE items (id int PRIMARY KEY, body text)",
        "INSERT INTO items SELECT g, nullif(repeat(md5(g::text), g % 9), '') FROM generate_series(1, 900) g",
        "CREATE TABLE notes (n int, body text)",
        "INSERT INTO notes SELECT g % 20, E'tab\\tline\\n' FROM generate_series(0, 59) g",
    )
    yield made
    drop_database(made)


@pytest.fixture(autouse=True)
def small_ranges(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches of several ranges; by this test's way, on the driver or in tasks."""
    monkeypatch.setattr(ranges.cut, "__kwdefaults__", {"start": (0, 0), "range_bytes": 16 << 10})
    monkeypatch.setattr(copy_plan, "BATCH_BYTES", 48 << 10)
    monkeypatch.setattr(copy_plan, "RAW_BATCHES", 1)
    monkeypatch.setattr(copy, "SMALL_BYTES", (1 << 30) if run.way == "short" else 0)


class Dies(Wrapped):
    """Ends the run at a batch, before or after it is written."""

    def __init__(self, sink: Sink, at: int, *, written: bool) -> None:
        super().__init__(sink)
        self._left = at
        self._written = written

    def apply(self, batch: Batch) -> None:
        """Write, or not, and end."""
        self._left -= 1
        if self._left > 0 or self._written:
            super().apply(batch)
        if self._left <= 0:
            raise RuntimeError("killed")


def pipeline(source: Database, sink: Any, place: Path) -> Pipeline:
    """Copies first, then streams."""
    return Pipeline(PostgresSource(source.url, keyless="full", init=True), sink, state_dir=place / "state")


def rows_of(source: Database, table: str) -> list[Row]:
    """What the source has."""
    return in_order([(str(n), body) for n, body in source.rows(f"SELECT * FROM {table}")])


def require_equal(run: Run, source: Database) -> None:
    """Every row is there, once; of lines that may come again, at least once."""
    wanted = {f"public.{table}": rows_of(source, table) for table in TABLES}
    if run.target.holds == "tables":
        assert run.target.tables() == wanted
    else:
        found = Counter(_line(line) for line in run.target.lines() if line["action"] == "I")
        expected = Counter((table, *row) for table, rows in wanted.items() for row in rows)
        assert set(found) == set(expected)
        assert not expected - found
    print(f"compared {sum(map(len, wanted.values()))} rows")


def _line(line: dict[str, Any]) -> tuple[str | None, ...]:
    values = [column["value"] for column in line["columns"]]
    return f"{line['schema']}.{line['table']}", *(None if v is None else str(v) for v in values)


def test_tables_then_changes(run: Run, source: Database, tmp_path: Path) -> None:
    """What was there is copied once, and what comes later follows it."""
    assert pipeline(source, run.target.sink(), tmp_path).run(once=True)
    require_equal(run, source)
    source.run("INSERT INTO items VALUES (1000, 'later')", "INSERT INTO notes VALUES (5, 'later')")
    assert pipeline(source, run.target.sink(), tmp_path).run(once=True)
    require_equal(run, source)


@IN_TASKS
def test_lost_replies(run: Run, source: Database, tmp_path: Path) -> None:
    """The same batch of a copy comes again: no row is there twice, but for lines that may be."""
    sink = LosesReplies(run.target.sink())
    assert pipeline(source, sink, tmp_path).run(once=True)
    assert len(sink.failed) > 3
    require_equal(run, source)


@IN_TASKS
@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
def test_a_run_that_died(run: Run, source: Database, tmp_path: Path, written: bool) -> None:
    """The next run goes on with the copy, although the table has changed meanwhile; more than once."""
    for at in (2, 3):
        with pytest.raises(RuntimeError, match="killed"):
            pipeline(source, Dies(run.target.sink(), at, written=written), tmp_path).run(once=True)
        source.run(f"INSERT INTO items SELECT coalesce(max(id), 0) + {at}, 'meanwhile' FROM items")
    assert pipeline(source, run.target.sink(), tmp_path).run(once=True)
    require_equal(run, source)


@IN_TASKS
def test_a_task_that_runs_twice(run: Run, source: Database, tmp_path: Path, spark: SparkSession) -> None:
    """Its worker is killed when its rows are ready; only the attempt that reported counts."""
    place = "task.after_decode" if run.target.holds == "lines" else "task.after_write"
    mark = tmp_path / "mark"
    spark.sparkContext.environment[VARIABLE] = f"{place}@{mark}"
    try:
        assert pipeline(source, run.target.sink(), tmp_path).run(once=True)
    finally:
        del spark.sparkContext.environment[VARIABLE]
    assert mark.exists(), "no worker was killed"
    require_equal(run, source)
