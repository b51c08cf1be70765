"""A step's rows: the same by every way, in the order of the source, however many tasks there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice.modifiers.chain import Chain
from pgsluice.pipeline.batch import LogStep
from pgsluice.schema.typed.choices import SpecialValues
from pgsluice.testing.batches import Changes, table
from tests.contract.ways import decodable_ranges, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ITEMS = table("public.items", {"id": "int8", "price": "numeric(8,2)", "at": "timestamptz"}, key=["id"])
OTHERS = table("public.others", {"id": "int8"}, key=["id"], version=2)
COLUMNS = ("id", "price", "_op", "_lsn", "_seq")
TRANSACTIONS = 23  # a prime: no number of tasks divides the ranges evenly


@pytest.fixture
def changes() -> Changes:
    """Many transactions of two tables, each a range of its own in the log."""
    changes = Changes()
    for number in range(TRANSACTIONS):
        changes.insert(ITEMS, str(number), f"{number}.50", "2026-01-02 03:04:05+00")
        changes.insert(OTHERS, str(number))
        if number % 3 == 2:
            changes.delete(ITEMS, str(number), None, None)
        changes.commit()
    return changes


def make_step(
    changes: Changes, spark: SparkSession, scratch: Path, *, small: bool, chain: Chain | None = None
) -> LogStep:
    """A step over a real log."""
    step = changes.step()
    write_log(scratch, step.rows, step.tables)
    parts = decodable_ranges(scratch, step.tables)
    assert len(parts) == TRANSACTIONS
    modification = (chain or Chain()).of(step.tables)
    return LogStep(parts, step.tables, modification, lambda: spark, scratch, small=small)


@pytest.mark.parametrize("way", ["small", "tasks", "chain"])
def test_typed_rows_are_the_same_by_every_way(
    way: str, changes: Changes, spark: SparkSession, tmp_path: Path
) -> None:
    """Typed by the tasks that decode, by the JVM after a chain, or on the driver: one result, in order."""
    unchanged = Chain([lambda frame, tables: frame.where("relation >= 0")]) if way == "chain" else None
    step = make_step(changes, spark, tmp_path, small=way == "small", chain=unchanged)
    found = [tuple(row) for row in step.typed(ITEMS.id, SpecialValues(), COLUMNS).collect()]
    wanted = [
        (row["id"], row["price"], row["_op"], row["_lsn"], row["_seq"])
        for row in changes.step().typed(ITEMS.id, SpecialValues(), COLUMNS).collect()
    ]
    assert found == wanted
    assert len(found) == TRANSACTIONS + TRANSACTIONS // 3


def test_chunks_and_frame_are_in_order(changes: Changes, spark: SparkSession, tmp_path: Path) -> None:
    """Neighbouring ranges go to one task, and the rows still come in the order of the source."""
    step = make_step(changes, spark, tmp_path, small=False)
    assert step.frame().rdd.getNumPartitions() == spark.sparkContext.defaultParallelism < TRANSACTIONS
    wanted = [(row["commit_lsn"], row["seq"]) for row in changes.step().rows.to_pylist()]
    assert wanted == sorted(wanted)
    chunks = [row for chunk in step.chunks() for row in chunk.to_pylist()]
    assert [(row["commit_lsn"], row["seq"]) for row in chunks] == wanted
    assert [(row.commit_lsn, row.seq) for row in step.frame().collect()] == wanted
