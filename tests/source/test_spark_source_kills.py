"""The driver killed with -9 around its checkpoint, under traffic: no row is lost, none comes twice."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.source.streaming import Captured, capturing, session_with_source, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

KILLS = 3


class Traffic(threading.Thread):
    """Inserts numbered rows, some in each transaction, until it is stopped."""

    def __init__(self, database: Database, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._chance = chance
        self._stopping = threading.Event()
        self.rows = 0

    def run(self) -> None:
        """Insert."""
        with self._database.connect() as conn:
            while not self._stopping.is_set():
                count = self._chance.randint(1, 40)
                conn.execute(
                    "INSERT INTO items SELECT i, repeat('x', 200) FROM generate_series(%s::int, %s::int) i",
                    (self.rows + 1, self.rows + count),
                )
                self.rows += count
                time.sleep(0.05)

    def stop(self) -> None:
        """End after the running transaction."""
        self._stopping.set()
        self.join()


def test_kills_of_the_driver_around_its_checkpoint(
    database: Database, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
):
    """Each run goes on where the checkpoint of the killed one stands."""
    seed = random.SystemRandom().randrange(2**32)
    chance = random.Random(seed)
    out = tmp_path / "out"
    with capturing(
        database, tmp_path / "state", "CREATE TABLE items (id int PRIMARY KEY, body text)"
    ) as captured:
        traffic = Traffic(database, chance)
        traffic.start()
        try:
            batches = [_killed_run(captured, out, chance) for _ in range(KILLS)]
        finally:
            traffic.stop()
        found = _finish(captured, out, spark)
    twice = [number for number, count in found.items() if count > 1]
    missing = set(range(1, traffic.rows + 1)) - set(found)
    with capsys.disabled():
        print(f" seed {seed}, {KILLS} kills after batches {batches}, {traffic.rows} rows compared", end="")
    assert (twice, missing, len(found)) == ([], set(), traffic.rows)


def _killed_run(captured: Captured, out: Path, chance: random.Random) -> int:
    """One life of the driver; gives the number of batches that it left committed."""
    commits = out.with_name("out.checkpoint") / "commits"
    before = _count(commits)
    options = json.dumps(captured.with_options(maxBytesPerTrigger="16k"))
    command = [sys.executable, "-m", "tests.source.streaming_driver", options, str(out)]
    with subprocess.Popen(command) as driver:
        try:
            wait_until(lambda: _count(commits) >= before + 2 or driver.poll() is not None, seconds=200)
            time.sleep(chance.random())
            assert driver.poll() is None, "the driver ended by itself"
        finally:
            _kill(driver)
    return _count(commits)


def _kill(driver: subprocess.Popen[bytes]) -> None:
    """End the Python half and the JVM, which is the half that writes the checkpoint, at the same moment."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in [*psutil.Process(driver.pid).children(), driver]:
            process.kill()


def _finish(captured: Captured, out: Path, spark: SparkSession) -> Counter[int]:
    """Read the rest; how often each number has arrived."""
    session = session_with_source(spark)
    stream = session.readStream.format("pgsluice").options(**captured.with_options()).load()
    sink = stream.writeStream.format("parquet").option("checkpointLocation", f"{out}.checkpoint")
    sink.trigger(availableNow=True).start(str(out)).awaitTermination()
    return Counter(int(row[0]) for row in session.read.parquet(str(out)).selectExpr("values[0]").collect())


def _count(directory: Path) -> int:
    return len([path for path in directory.glob("*") if path.name.isdigit()]) if directory.is_dir() else 0
