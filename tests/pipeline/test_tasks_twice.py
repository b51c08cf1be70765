"""A task that runs twice: its worker is killed after the write, and only the attempt that reported counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pgsluice.modifiers.chain import Chain
from pgsluice.observability.failpoints import VARIABLE
from pgsluice.pipeline.staging import stage, staged_tables
from pgsluice.testing.batches import Changes, table
from tests.contract.ways import decodable_ranges, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ITEMS = table("public.items", {"id": "int8", "body": "text"}, key=["id"], version=1)


@pytest.mark.spark
@pytest.mark.parametrize("chain", [Chain(), Chain([lambda frame, _: frame])], ids=["one hop", "two hops"])
def test_both_attempts_left_a_file_and_one_counts(spark: SparkSession, tmp_path: Path, chain: Chain) -> None:
    """The killed attempt's file is there, complete, and its rows are not taken twice."""
    changes = Changes()
    for number in range(400):
        changes.insert(ITEMS, str(number), "x" * 50)
        if number % 100 == 99:
            changes.commit()
    log, staged, mark = tmp_path / "log", tmp_path / "staged", tmp_path / "mark"
    log.mkdir()
    staged.mkdir()
    step = changes.step()
    write_log(log, step.rows, step.tables)
    parts = decodable_ranges(log, step.tables)
    assert len(parts) == 4
    spark.sparkContext.environment[VARIABLE] = f"task.after_write@{mark}"
    try:
        paths = stage(spark, parts, chain.of(step.tables), staged)
    finally:
        del spark.sparkContext.environment[VARIABLE]
    assert mark.exists(), "no worker was killed"
    # One hop leaves a file per range, two hops leave one per task.
    assert len(list(staged.iterdir())) > len(paths) == (spark.sparkContext.defaultParallelism if chain else 4)
    found = pa.concat_tables(staged_tables(paths))
    assert found["values"].to_pylist() == step.rows["values"].to_pylist()
    print(f"compared {found.num_rows} rows")
