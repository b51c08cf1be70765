"""format("pgsluice") in a real Spark: what arrives, where it goes on, and what the user is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.source.streaming import Captured, capturing, session_with_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from tests.fix_pg import Database

pytestmark = pytest.mark.spark

ITEMS = "CREATE TABLE items (id int PRIMARY KEY, price numeric(8, 2), at timestamptz, body text)"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of our own over the shared Spark, which knows the source."""
    return session_with_source(spark)


@pytest.fixture
def captured(database: Database, tmp_path: Path) -> Iterator[Captured]:
    """A table of items, captured from now on."""
    with capturing(database, tmp_path / "state", ITEMS) as found:
        yield found


def load(session: SparkSession, options: dict[str, str]) -> DataFrame:
    """A stream."""
    return session.readStream.format("pgsluice").options(**options).load()


def to_files(frame: DataFrame, path: Path) -> StreamingQuery:
    """Append everything that there is now to parquet files, exactly once."""
    sink = frame.writeStream.format("parquet").option("checkpointLocation", f"{path}.checkpoint")
    return sink.trigger(availableNow=True).start(str(path))


def test_the_envelope_is_what_happened_row_by_row(captured: Captured, session: SparkSession, tmp_path: Path):
    """Every change in order, over several micro-batches and a restart; the log as a batch has the same."""
    run = captured.database.run
    run(
        "INSERT INTO items VALUES (1, 9.99, '2024-05-01 12:00+00', 'one'), (2, NULL, 'infinity', '')",
        "UPDATE items SET price = 0.5 WHERE id = 1",
        "UPDATE items SET id = 3 WHERE id = 2",
    )
    changes = load(session, captured.with_options(maxBytesPerTrigger="1"))
    first = to_files(changes, tmp_path / "out")
    first.awaitTermination()
    run(
        "DELETE FROM items WHERE id = 3",
        "TRUNCATE items",
        "SELECT pg_logical_emit_message(true, 'app', 'hello')",
    )
    to_files(changes, tmp_path / "out").awaitTermination()
    assert len([p for p in first.recentProgress if p["numInputRows"]]) == 3
    expected = [
        ("I", ["1", "9.99", "2024-05-01 12:00:00+00", "one"], None, None),
        ("I", ["2", None, "infinity", ""], None, None),
        ("U", ["1", "0.50", "2024-05-01 12:00:00+00", "one"], None, None),
        ("U", ["3", None, "infinity", ""], ["2", None, None, None], None),
        ("D", None, ["3", None, None, None], None),
        ("T", None, None, None),
        ("M", None, None, "app"),
    ]
    assert _envelopes(session.read.parquet(str(tmp_path / "out"))) == expected
    assert _envelopes(session.read.format("pgsluice").option("log", str(captured.log)).load()) == expected


def _envelopes(frame: DataFrame) -> list[tuple]:
    rows = frame.orderBy("commit_lsn", "seq").select("op", "values", "old", "prefix").collect()
    return [tuple(row) for row in rows]


def test_typed_rows_equal_the_table(captured: Captured, session: SparkSession, tmp_path: Path):
    """A running query takes what is committed while it runs, typed as the source has it."""
    stream = load(session, captured.with_options(table="items", startingPosition="latest"))
    assert stream.schema["price"].dataType.simpleString() == "decimal(8,2)"
    query = (
        stream.writeStream.format("memory")
        .queryName("typed_items")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        captured.database.run(
            "INSERT INTO items SELECT i, i / 7.0, '2024-05-01+00'::timestamptz + i * interval '1.000001 s',"
            " 'body ' || i FROM generate_series(1, 20000) i"
        )
        _await_rows(query, session, 20000)
    finally:
        query.stop()
    rows = session.sql(
        "SELECT id, string(price), date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), body FROM typed_items"
    )
    expected = captured.database.rows(
        "SELECT id, price::text, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), body FROM items"
    )
    assert {tuple(row) for row in rows.collect()} == set(expected)


def _await_rows(query: StreamingQuery, session: SparkSession, count: int) -> None:
    for _ in range(100):
        query.processAllAvailable()
        if session.table("typed_items").count() >= count:
            return
        assert query.awaitTermination(0.1) is False


def test_two_queries_over_one_log(captured: Captured, session: SparkSession, tmp_path: Path):
    """Each has its consumer and its pace; both see every row once, and one listener serves both."""
    captured.database.run("INSERT INTO items (id) SELECT generate_series(1, 500)")
    queries = [
        to_files(
            load(session, captured.with_options(consumer=name, maxBytesPerTrigger=limit)), tmp_path / name
        )
        for name, limit in (("a", "4k"), ("b", "64m"))
    ]
    for query in queries:
        query.awaitTermination()
    counts = [
        session.read.parquet(str(tmp_path / n)).agg(F.count("*"), F.countDistinct("seq")).first()
        for n in "ab"
    ]
    assert [tuple(c) for c in counts] == [(500, 500), (500, 500)]


def test_a_changed_table_stops_the_query_and_it_goes_on(
    captured: Captured, session: SparkSession, tmp_path: Path
):
    """The error says what to do; the same checkpoint goes on with the new columns."""
    captured.database.run("INSERT INTO items (id) VALUES (1)")
    options = captured.with_options(table="items")
    stream = load(session, options)
    captured.database.run("ALTER TABLE items ADD note text", "INSERT INTO items (id, note) VALUES (2, 'new')")
    with pytest.raises(
        StreamingQueryException, match=r"columns of public\.items changed at .*same checkpoint"
    ):
        to_files(stream, tmp_path / "out").awaitTermination()
    to_files(load(session, options), tmp_path / "out").awaitTermination()
    rows = session.read.option("mergeSchema", "true").parquet(str(tmp_path / "out"))
    assert sorted(tuple(row) for row in rows.select("id", "note").collect()) == [(1, None), (2, "new")]


def test_what_is_wrong_reaches_the_user(captured: Captured, session: SparkSession, tmp_path: Path):
    """An unknown option, a batch of no table, and a checkpoint behind the log, each in our words."""
    with pytest.raises(
        AnalysisException, match=r"unknown option startposition, did you mean startingPosition\?"
    ):
        load(session, captured.with_options(startPosition="earliest"))
    with pytest.raises(AnalysisException, match="is read from its database by the options url and table"):
        session.read.format("pgsluice").options(**captured.with_options()).load().collect()
    captured.database.run("INSERT INTO items (id) VALUES (1)")
    stream = load(session, captured.with_options())
    to_files(stream, tmp_path / "out").awaitTermination()
    for offsets in (tmp_path / "out.checkpoint" / "offsets").iterdir():
        if offsets.suffix == ".crc":
            offsets.unlink()
        else:
            offsets.write_text(re.sub('"lsn": "[^"]*"', '"lsn": "0/1"', offsets.read_text()))
    with pytest.raises(StreamingQueryException, match="no longer in the change log"):
        to_files(stream, tmp_path / "out").awaitTermination()


def test_sessions_that_know_the_source_do_not_keep_others_from_it(spark: SparkSession):
    """Each registers it for itself, whichever session is active; the active one stays the same."""
    first = session_with_source(spark)
    first.createDataFrame([], "nothing int")  # active from now on
    second = session_with_source(spark)
    for session in (first, second):
        with pytest.raises(AnalysisException, match="neither the option url nor the option log"):
            session.read.format("pgsluice").load()
    first.conf.set("pgsluice.test", "first")
    assert SparkSession.active().conf.get("pgsluice.test") == "first"
