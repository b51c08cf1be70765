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
from typing import TYPE_CHECKING, Any, Literal

import psutil
import pytest

from tests.source.streaming import Captured, capturing, session_with_source, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

    from tests.fix_pg import Database
    from tests.fix_proof import Proof

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

Moment = Literal["planned", "committed", "whenever"]
MOMENTS: tuple[Moment, ...] = ("planned", "committed", "whenever")
"""When the driver dies: offsets/N is there and commits/N is not, commits/N is the newest, or at random."""


INSERT = "INSERT INTO items SELECT i, repeat('x', 200) FROM generate_series(%s::int, %s::int) i"
UPDATE = "UPDATE items SET body = body || 'u' WHERE id BETWEEN %s AND %s + 3"
DELETE = "DELETE FROM items WHERE id = %s - 1"


class Traffic(threading.Thread):
    """Inserts numbered rows, changes and deletes some of them, until it is stopped."""

    def __init__(self, database: Database, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._chance = chance
        self._stopping = threading.Event()
        self.rows = 0
        self.changes: Counter[str] = Counter()

    def run(self) -> None:
        """Insert, update, delete."""
        with self._database.connect() as conn:
            while not self._stopping.is_set():
                count = self._chance.randint(1, 40)
                new = (self.rows + 1, self.rows + count)
                some = (self._chance.randint(1, self.rows + count),)
                with conn.transaction():
                    self._do(conn, "I", INSERT, new)
                    self._do(conn, "U", UPDATE, some * 2)
                    self._do(conn, "D", DELETE, some)
                self.rows += count
                time.sleep(0.05)

    def _do(self, conn: psycopg.Connection[Any], op: str, statement: str, values: tuple[int, ...]) -> None:
        self.changes[op] += conn.execute(statement, values).rowcount

    def stop(self) -> None:
        """End after the running transaction."""
        self._stopping.set()
        self.join()


def test_kills_of_the_driver_around_its_checkpoint(
    database: Database, tmp_path: Path, spark: SparkSession, proof: Proof
):
    """Each run goes on where the checkpoint of the killed one stands: every change comes exactly once."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    out = tmp_path / "out"
    with capturing(
        database, tmp_path / "state", "CREATE TABLE items (id int PRIMARY KEY, body text)"
    ) as captured:
        traffic = Traffic(database, chance)
        traffic.start()
        try:
            batches = [_killed_run(captured, out, chance, moment) for moment in MOMENTS]
        finally:
            traffic.stop()
        found = _finish(captured, out, spark)
    positions = {(row["commit_lsn"], row["seq"]) for row in found}
    assert len(positions) == len(found)
    assert Counter(row["op"] for row in found) == traffic.changes
    assert _replayed(found) == dict(database.rows("SELECT id::text, body FROM items"))
    proof(f"seed {seed}, killed after batches {batches}, {len(found)} changes compared")


def _killed_run(captured: Captured, out: Path, chance: random.Random, moment: Moment) -> int:
    """One life of the driver; gives the number of batches that it left committed."""
    checkpoint = out.with_name("out.checkpoint")
    before = _last(checkpoint / "commits")
    options = json.dumps(captured.with_options(maxBytesPerTrigger="16k"))
    command = [sys.executable, "-m", "tests.source.streaming_driver", options, str(out)]
    with subprocess.Popen(command) as driver:
        try:
            wait_until(
                lambda: _last(checkpoint / "commits") >= before + 2 or driver.poll() is not None, seconds=200
            )
            if moment == "whenever":
                time.sleep(chance.random())
            else:
                wait_until(lambda: _stopped_when(driver, checkpoint, moment), seconds=200)
            assert driver.poll() is None, "the driver ended by itself"
        finally:
            _kill(driver)
    return _last(checkpoint / "commits")


def _stopped_when(driver: subprocess.Popen[bytes], checkpoint: Path, moment: Moment) -> bool:
    """
    Hold the driver still if its checkpoint is at this moment; whether it is.

    Looked at again when nothing moves any more: between the first look and the signal a batch may have ended.
    """
    if not _is_at(checkpoint, moment):
        return False
    for process in _processes(driver):
        process.suspend()
    if _is_at(checkpoint, moment):
        return True
    for process in _processes(driver):
        process.resume()
    return False


def _is_at(checkpoint: Path, moment: Moment) -> bool:
    planned, committed = _last(checkpoint / "offsets"), _last(checkpoint / "commits")
    return planned == committed + (1 if moment == "planned" else 0)


def _processes(driver: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The JVM, which is the half that writes the checkpoint, and the Python half."""
    parent = psutil.Process(driver.pid)
    return [*parent.children(), parent]


def _kill(driver: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in _processes(driver):
            process.kill()


def _finish(captured: Captured, out: Path, spark: SparkSession) -> list[dict[str, Any]]:
    """Read the rest; everything that has arrived, in the order of the source."""
    session = session_with_source(spark)
    stream = session.readStream.format("pgsluice").options(**captured.with_options()).load()
    sink = stream.writeStream.format("parquet").option("checkpointLocation", f"{out}.checkpoint")
    sink.trigger(availableNow=True).start(str(out)).awaitTermination()
    rows = session.read.parquet(str(out)).select("commit_lsn", "seq", "op", "values", "old").collect()
    return sorted((row.asDict() for row in rows), key=lambda row: (row["commit_lsn"], row["seq"]))


def _replayed(changes: list[dict[str, Any]]) -> dict[str, str]:
    """The table that the changes make."""
    table: dict[str, str] = {}
    for change in changes:
        if change["op"] == "D":
            del table[change["old"][0]]
        else:
            key, body = change["values"]
            table[key] = body
    return table


def _last(directory: Path) -> int:
    """The newest batch that a checkpoint has there; Spark removes the oldest, so they aren't counted."""
    return max((int(path.name) for path in directory.glob("*") if path.name.isdigit()), default=-1)
