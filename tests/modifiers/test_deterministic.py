"""Deterministic transformers: the same in every process and table; and days that go with a key."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgsluice.modifiers.transforms.base import Cell
from pgsluice.modifiers.transforms.registry import BUILT_IN, make
from pgsluice.schema.table import PgType
from tests.modifiers.deterministic import changed, columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.spark
def test_the_same_in_two_processes_and_two_tables(spark: SparkSession) -> None:
    """Of each transformer that can be deterministic, for new values and old ones."""
    assert set(BUILT_IN) - set(columns()) == {"", "string"}  # letters by chance, whatever is asked for
    here = changed(spark)
    assert here["t1"] == here["t2"]
    for name, (first, first_old, second, second_old) in here["t1"].items():
        assert (first, second) == (first_old, second_old), name
    environment = {**os.environ, "PYTHONHASHSEED": "123", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    there = subprocess.run(
        [sys.executable, "-m", "tests.modifiers.deterministic"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(there.stdout.splitlines()[-1])
    assert found == here
    # And they do something.
    kept = {"noop", "null", "literal_string", "greenmask_boolean", "greenmask_choice"}
    for name, (_, values, _) in columns().items():
        if name not in kept:
            assert here["t1"][name][0] != values[0], name


@pytest.mark.spark
def test_shift_by_a_key(spark: SparkSession) -> None:
    """All dates of one key move by the same number of days, those of others by another one."""
    shift = make("shift", {"min_days": -1000, "max_days": 1000})
    made = shift.sql(Cell("day", PgType(0, "date"), b"salt", {"by": "who"}))
    rows = [(f"w{n % 20}", f"2020-{n % 12 + 1:02}-11") for n in range(120)]
    frame = spark.createDataFrame(rows, "who string, day string").selectExpr("who", "day", f"{made} as made")
    moved: dict[str, set[int]] = {}
    for who, day, other in frame.collect():
        days = (dt.date.fromisoformat(other) - dt.date.fromisoformat(day)).days
        assert -1000 <= days <= 1000
        moved.setdefault(who, set()).add(days)
    assert all(len(days) == 1 for days in moved.values())
    assert len({min(days) for days in moved.values()}) > 10
    again = shift.sql(Cell("day", PgType(0, "timestamp"), b"salt", {"by": "who"}))
    moment = spark.createDataFrame([("w1", "2020-01-11 10:11:12.5")], "who string, day string")
    wanted = dt.datetime.fromisoformat("2020-01-11 10:11:12.500000") + dt.timedelta(days=min(moved["w1"]))
    assert dt.datetime.fromisoformat(moment.selectExpr(again).collect()[0][0] + "00000") == wanted
