"""Tables read by a real Spark: tasks, filters, one point under traffic, and what the user is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812

import pgsluice.spark
from tests.source.streaming import session_with_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.fix_pg import Database

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]

ORDERS = """
    CREATE TABLE orders (id int8 PRIMARY KEY, total numeric(10, 2), at timestamptz, note text);
    INSERT INTO orders SELECT i, i / 7.0, '2024-05-01+00'::timestamptz + i * interval '1.000001 s', 'n' || i
    FROM generate_series(1, 20000) i"""


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of our own over the shared Spark, which knows the source."""
    return session_with_source(spark)


def texts(frame: DataFrame) -> set[tuple]:
    """The rows of orders, as texts."""
    columns = "id", "string(total)", "date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", "note"
    return {tuple(row) for row in frame.selectExpr(*columns).collect()}


def in_database(database: Database) -> set[tuple]:
    """The same from the database."""
    at = "to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    return set(database.rows(f"SELECT id, total::text, {at}, note FROM orders"))


@pytest.mark.both_versions
def test_rows_equal_the_table(database: Database, session: SparkSession):
    """In one task of now, and in several at one point, for several actions, whatever happens meanwhile."""
    database.run(ORDERS)
    expected = in_database(database)
    now = pgsluice.spark.table(session, database.url, "orders")
    assert now.columns == ["id", "total", "at", "note", "_untyped"]
    assert (now.rdd.getNumPartitions(), texts(now)) == (1, expected)
    with pgsluice.spark.snapshot(database.url) as point:
        then = point.table(session, "orders", partitions="5")
        where_read = then.select(F.spark_partition_id().alias("task")).distinct().count()
        database.run("DELETE FROM orders WHERE id % 2 = 0", "UPDATE orders SET note = 'later'")
        assert (then.rdd.getNumPartitions(), where_read, texts(then)) == (5, 5, expected)
        assert then.where("id <= 100").count() == 100
    assert texts(now) == in_database(database)
    print(f"compared {2 * len(expected)} rows")


def test_the_plain_form(database: Database, session: SparkSession):
    """By options alone: with the columns of a stream, and without."""
    database.run(ORDERS)
    reader = session.read.format("pgsluice").option("url", database.url).option("table", "public.orders")
    frame = reader.load()
    assert frame.columns[:5] == ["id", "total", "at", "note", "_op"]
    assert texts(frame) == in_database(database)
    assert frame.select("_op").distinct().collect() == [("S",)]
    chosen = reader.option("columns", "note, id").load()
    assert chosen.columns == ["note", "id"]
    assert chosen.where("id = 7").collect() == [("n7", 7)]
    assert chosen.limit(3).count() == 3
    assert database.url not in frame._jdf.queryExecution().toString()


def test_rows_without_columns(database: Database, session: SparkSession):
    """A table without columns still has rows, and a choice of none of a stream's columns is a count."""
    database.run("CREATE TABLE bare ()", "INSERT INTO bare SELECT FROM generate_series(1, 2500)")
    frame = pgsluice.spark.table(session, database.url, "bare")
    assert (frame.columns, frame.count()) == ([], 2500)


def test_an_action_after_the_snapshot_has_ended(database: Database, session: SparkSession):
    """The frame can be used no more, and the error says so in one line; a cached one has its rows."""
    database.run(ORDERS)
    with pgsluice.spark.snapshot(database.url) as point:
        frame = point.table(session, "orders")
        assert frame.count() == 20000
        kept = point.table(session, "orders", ["id"]).cache()
        assert kept.count() == 20000
    assert kept.agg(F.sum("id")).first() == (200010000,)
    kept.unpersist()
    with pytest.raises(
        PythonException,
        match=rf"SnapshotEndedError: the snapshot of .* at {point.lsn} has ended\. Run every action inside",
    ):
        frame.count()


def test_one_point_under_traffic(database: Database, session: SparkSession):
    """The sum over two tables is constant in every snapshot, while transfers between them go on."""
    database.run(
        "CREATE TABLE left_side (id int PRIMARY KEY, amount int8)",
        "CREATE TABLE right_side (id int PRIMARY KEY, amount int8)",
        "INSERT INTO left_side SELECT g, 1000 FROM generate_series(1, 3000) g",
        "INSERT INTO right_side SELECT g, 1000 FROM generate_series(1, 3000) g",
    )
    done = threading.Event()
    transfers = 0

    def transfer() -> None:
        nonlocal transfers
        with database.connect() as conn:
            while not done.is_set():
                some = f"id % 50 = {transfers % 50}"
                with conn.transaction():
                    conn.execute(f"UPDATE left_side SET amount = amount - id % 7 WHERE {some}")
                    conn.execute(f"UPDATE right_side SET amount = amount + id % 7 WHERE {some}")
                transfers += 1

    traffic = threading.Thread(target=transfer)
    traffic.start()
    seen = []
    try:
        for _ in range(4):
            with pgsluice.spark.snapshot(database.url) as point:
                sides = [point.table(session, name, partitions="3") for name in ("left_side", "right_side")]
                sums = [side.agg(F.sum("amount")).first()[0] for side in sides * 2]
                assert sums[:2] == sums[2:]
                seen.append(sums[:2])
    finally:
        done.set()
        traffic.join()
    assert {sum(sums) for sums in seen} == {6000 * 1000}
    assert len({tuple(sums) for sums in seen}) > 1, "nothing moved meanwhile"
    print(f"4 snapshots during {transfers} transfers: {seen}")


def test_a_frame_can_be_filtered_again_and_again(database: Database, session: SparkSession):
    """
    Each filter has all rows to choose from, also when Spark is told to push filters down.

    It keeps the tasks that it planned for a frame's first filter, so a source must not leave rows out for it.
    """
    database.run(ORDERS)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    frame = pgsluice.spark.table(session, database.url, "orders")
    counts = [frame.where(f"id <= {most}").count() for most in (10, 20)]
    both = frame.where("id <= 5").unionAll(frame.where("id > 19990")).count()
    assert (counts, both, frame.count()) == ([10, 20], 15, 20000)


def test_a_condition_of_the_server(database: Database, session: SparkSession):
    """Rows that it leaves out are never seen, not even one that would stop the read."""
    database.run(
        "CREATE TABLE t (id int, day date)", "INSERT INTO t VALUES (1, 'infinity'), (2, '2024-02-29')"
    )
    with pgsluice.spark.snapshot(database.url) as point:
        frame = point.table(session, "t", where="id > 1", specialDates="stop")
        assert [row.id for row in frame.collect()] == [2]
        with pytest.raises(PythonException, match=r"public\.t\.day has a value that has no place"):
            point.table(session, "t", specialDates="stop").where("id > 1").collect()


def test_a_rewritten_table_is_an_error(database: Database, session: SparkSession):
    """Between the point and the action: said, never a frame with rows missing."""
    database.run(ORDERS)
    with pgsluice.spark.snapshot(database.url) as point:
        frame = point.table(session, "orders")
        assert frame.count() == 20000
        database.run("TRUNCATE orders")
        with pytest.raises(PythonException, match=r"public\.orders was rewritten after the snapshot"):
            frame.count()


def test_the_example(database: Database, session: SparkSession, tmp_path: Path):
    """It writes what the tables hold, and says where the point is."""
    database.run(ORDERS)
    program = [sys.executable, "examples/tables-to-parquet.py", database.url, str(tmp_path), "orders"]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"orders: 20000 rows\neverything that was committed before [0-9A-F/]+\n", done.stdout)
    assert texts(session.read.parquet(str(tmp_path / "orders"))) == in_database(database)
