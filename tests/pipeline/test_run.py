"""Whole pipelines: from a real server through the log to sinks, by both ways, with and without a chain."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest

from pgsluice import BatchOptions, Chain, DuckDBSink, LogOptions, MemorySink, Pipeline, PostgresSource
from pgsluice.cli.main import main
from pgsluice.errors import (
    PublicationChangedError,
    SinkBehindLogError,
    SlotAheadOfLogError,
    TargetError,
)
from pgsluice.schema.typed import SpecialValues
from pgsluice.schema.typed.spark_column import spark_column
from pgsluice.sinks.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.schema.table import TableVersion
    from tests.fix_pg import Database

SMALL = BatchOptions(small_bytes=1 << 40)  # everything on the driver
LARGE = BatchOptions(
    decode="tasks", small_bytes=0, without_spark_bytes=0, max_bytes=200_000
)  # everything through tasks


@pytest.fixture
def filled(database: Database) -> Database:
    """A prepared database with changes of every kind waiting in its slot."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY, price numeric(8,2), body text, tags text[])",
        "ALTER TABLE item ALTER body SET STORAGE EXTERNAL",
        "CREATE TABLE other (id int PRIMARY KEY)",
    )
    PostgresSource(database.url).init("main")
    database.run(
        "INSERT INTO item SELECT g, g / 7.0, repeat('x', g % 50), ARRAY['a', NULL, 'b,c']"
        " FROM generate_series(1, 3000) g",
        "UPDATE item SET body = repeat('large', 2000) WHERE id <= 20",
        "UPDATE item SET price = price + 1 WHERE id <= 40",
        "UPDATE item SET id = -id WHERE id % 100 = 0",
        "DELETE FROM item WHERE id BETWEEN 500 AND 600",
        "INSERT INTO other SELECT generate_series(1, 10)",
        "TRUNCATE other",
        "INSERT INTO other VALUES (11)",
        "SELECT pg_logical_emit_message(true, 'note', 'between')",
    )
    return database


def run_once(database: Database, tmp_path: Path, store: MemoryStore, **options: Any) -> Pipeline:
    """One run of changes alone into a memory store, until it has caught up."""
    options.setdefault("mode", "replication")
    pipeline = Pipeline(
        PostgresSource(database.url), MemorySink(store), state_dir=tmp_path / "state", **options
    )
    pipeline.run(once=True)
    return pipeline


def source_rows(database: Database, table: str) -> list[tuple[Any, ...]]:
    """The source's rows, as text, sorted."""
    with psycopg.connect(database.url) as connection:
        names = [c.name for c in connection.execute(f"SELECT * FROM {table} LIMIT 0").description or ()]
        texts = ", ".join(f'"{name}"::text' for name in names)
        return sorted(connection.execute(f"SELECT {texts} FROM {table}").fetchall(), key=repr)


@pytest.mark.spark
@pytest.mark.parametrize("way", [SMALL, LARGE], ids=["driver", "tasks"])
def test_what_arrives_equals_the_source(
    filled: Database, tmp_path: Path, spark: SparkSession, way: BatchOptions
) -> None:
    """Inserts, TOAST, key changes, deletes and truncates, by both ways."""
    store = MemoryStore()
    run_once(filled, tmp_path, store, batch=way)
    compared = 0
    for table in ("item", "other"):
        wanted = source_rows(filled, table)
        assert sorted(store.tables[f"public.{table}"].rows, key=repr) == wanted
        compared += len(wanted)
    print(f"compared {compared} rows")
    assert compared > 2800


def cheap(frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
    """A filter over a typed column, as a modifier."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    price = F.lit(None).cast("decimal(8,2)")
    for version in tables.values():
        for index, column in enumerate(version.columns):
            if column.name == "price":
                typed = spark_column(F.col("values")[index], column.type, SpecialValues())
                price = F.when(F.col("relation") == version.id, typed).otherwise(price)
    return frame.withColumn("price", price).filter("price is null or price < 100").drop("price")


@pytest.mark.spark
def test_a_chain_gives_the_same_rows_by_both_ways(
    filled: Database, tmp_path: Path, spark: SparkSession
) -> None:
    """A typed filter keeps the same entries, in the same order, on the driver and in tasks."""
    found = []
    for number, way in enumerate((SMALL, LARGE)):
        store = MemoryStore()
        store.tables = _Forgetful()  # the filter breaks histories: only the entries are compared
        source = PostgresSource(filled.url, init=True)
        Pipeline(
            source,
            MemorySink(store),
            name="main",
            state_dir=tmp_path / "state",
            batch=way,
            chain=Chain([cheap]),
            mode="replication",
            log=LogOptions(retention=3600, confirm="sinks"),
        ).run(once=True)
        found.append(store.rows().to_pylist())
        assert number == 0 or len(found[1]) > 0
    assert found[0] == found[1]
    assert {row["op"] for row in found[0]} >= {"I", "U", "D", "T", "M"}
    print(f"compared {len(found[0])} entries")


class _Forgetful(dict[str, Any]):
    """Tables that take any change."""

    def setdefault(self, key: str, default: Any = None) -> Any:
        """A table that forgets."""
        return _Forgetting()


class _Forgetting:
    def apply(self, *_: Any) -> None:
        """Nothing."""


@pytest.mark.spark
def test_two_sinks_over_one_log(filled: Database, tmp_path: Path, spark: SparkSession) -> None:
    """Each has its own progress; one that lags is caught up by the next run."""
    quick, late = MemoryStore(), tmp_path / "late.duckdb"
    run_once(filled, tmp_path, quick, log=LogOptions(retention=3600))
    sinks = {"target": MemorySink(quick), "late": DuckDBSink(late)}
    Pipeline(PostgresSource(filled.url), sinks, state_dir=tmp_path / "state", mode="replication").run(
        once=True
    )
    with duckdb.connect(str(late), read_only=True) as target:
        counted = target.execute("SELECT count(*), sum(price) FROM public.item").fetchone()
    assert counted == filled.rows("SELECT count(*), sum(price) FROM item")[0]


def test_a_run_goes_on_until_it_is_stopped(database: Database, tmp_path: Path) -> None:
    """Changes arrive while it runs; stop() finishes the running batch."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    store = MemoryStore()
    pipeline = Pipeline(
        PostgresSource(database.url, init=True), MemorySink(store), state_dir=tmp_path / "state"
    )
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    try:
        while not pipeline.loops:
            time.sleep(0.02)
        for number in range(20):
            database.run(f"INSERT INTO t VALUES ({number})")
        arrived = store.wait_for(
            lambda s: "public.t" in s.tables and len(s.tables["public.t"].rows) == 20, 60
        )
    finally:
        pipeline.stop()
        thread.join()
    assert arrived


def test_a_run_removes_the_rows_that_a_killed_one_left(filled: Database, tmp_path: Path) -> None:
    """Decoded rows of a batch that was never written don't stay on the disk."""
    left = tmp_path / "state" / "batch-killed"
    left.mkdir(parents=True)
    (left / "00000000-x.arrow").write_bytes(b"rows")
    run_once(filled, tmp_path, MemoryStore(), batch=SMALL)
    assert not left.exists()


@pytest.mark.spark
@pytest.mark.parametrize("way", [SMALL, LARGE], ids=["driver", "tasks"])
def test_a_table_that_changes_and_changes_back(
    database: Database, tmp_path: Path, spark: SparkSession, way: BatchOptions
) -> None:
    """Rows of a version that comes back are applied in their order, not with those of its first time."""
    database.run("CREATE TABLE item (id int PRIMARY KEY, v text)")
    PostgresSource(database.url).init("main")
    database.run(
        "INSERT INTO item VALUES (1, 'a')",
        "ALTER TABLE item REPLICA IDENTITY FULL",
        "UPDATE item SET v = 'b'",
        "INSERT INTO item VALUES (2, 'x')",
        "DELETE FROM item WHERE id = 2",
        "ALTER TABLE item REPLICA IDENTITY DEFAULT",
        "UPDATE item SET v = 'c'",
        "INSERT INTO item VALUES (2, 'y')",
    )
    target = tmp_path / "t.duckdb"
    source = PostgresSource(database.url)
    sink = DuckDBSink(target)
    Pipeline(source, sink, state_dir=tmp_path / "state", batch=way, mode="replication").run(once=True)
    with duckdb.connect(str(target)) as connection:
        assert connection.execute("FROM public.item ORDER BY id").fetchall() == [(1, "c"), (2, "y")]


def test_an_emptied_target_is_not_filled_from_the_middle(database: Database, tmp_path: Path) -> None:
    """The log has let go of what the target held: the gap is named although there is no position."""
    database.run("CREATE TABLE item (id int PRIMARY KEY, body text)")
    PostgresSource(database.url).init("main")
    small = LogOptions(max_bytes=1 << 20)
    for first in range(0, 5000, 500):
        database.run(
            f"INSERT INTO item SELECT g, repeat('x', 500) FROM generate_series({first}, {first + 499}) g"
        )
        run_once(database, tmp_path, MemoryStore.named(str(tmp_path)), batch=SMALL, log=small)
    held = MemoryStore.named(str(tmp_path)).tables["public.item"].rows
    assert sorted(held, key=repr) == source_rows(database, "item")
    with pytest.raises(SinkBehindLogError, match="no longer in the change log"):
        run_once(database, tmp_path, MemoryStore(), batch=SMALL, log=small)
    MemoryStore.forget(str(tmp_path))


def test_an_error_in_the_last_batch_is_not_hidden_by_a_stop(filled: Database, tmp_path: Path) -> None:
    """A stop waits for the running batch; when that one fails, the run says so."""

    class FailsLate(MemorySink):
        def apply(self, batch: Any) -> None:
            pipeline.stop()
            time.sleep(1)  # the pipeline is stopping by now
            raise TargetError("a row that does not fit")

    pipeline = Pipeline(
        PostgresSource(filled.url), FailsLate(MemoryStore()), state_dir=tmp_path / "state", batch=SMALL
    )
    with pytest.raises(TargetError, match="does not fit"):
        pipeline.run()


def test_a_lost_log_is_named_although_the_sink_has_no_progress(filled: Database, tmp_path: Path) -> None:
    """The slot was advanced by a log that is gone, and the sink is new: what it held can't be had."""
    run_once(filled, tmp_path, MemoryStore())
    with pytest.raises(SlotAheadOfLogError, match="an earlier log is missing"):
        run_once(filled, tmp_path / "another", MemoryStore())


def test_a_publication_that_others_changed_stops_a_run(filled: Database, tmp_path: Path) -> None:
    """Also with --init, which must not paper over rows that were never published."""
    filled.run(
        "ALTER PUBLICATION "
        + filled.rows("SELECT publication FROM pgsluice.pipeline")[0][0]
        + " DROP TABLE item"
    )
    with pytest.raises(PublicationChangedError, match="taken off"):
        Pipeline(
            PostgresSource(filled.url, init=True), MemorySink(MemoryStore()), state_dir=tmp_path / "state"
        ).run(once=True)


def test_status_tells_slot_log_and_sinks(
    filled: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text and as JSON; after a run nothing lags and there is no problem."""
    run_once(filled, tmp_path, MemoryStore())
    capsys.readouterr()
    where = ["--source-url", filled.url, "--state-dir", str(tmp_path / "state")]
    assert main(["status", *where, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["problems"] == []
    assert told["running"] is False
    assert told["sinks"][0]["lag_seconds"] == 0
    assert told["log"]["end"] >= told["sinks"][0]["position"]
    filled.run("SELECT pg_drop_replication_slot(slot) FROM pgsluice.pipeline")
    assert main(["status", *where]) == 1
    assert "SLUICE-SLOT-MISSING" in capsys.readouterr().out


def test_tail_follows_a_log(filled: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines for people, JSON, and the protocol's own messages, from a pipeline's log."""
    run_once(filled, tmp_path, MemoryStore(), log=LogOptions(retention=3600))
    capsys.readouterr()
    where = ["tail", "--state-dir", str(tmp_path / "state"), "--from", "earliest"]
    assert main([*where, "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "INSERT    public.item  id='1' price='0.14'" in lines[0]
    assert main([*where, "--json", "--limit", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["values"]["id"] == "1"
    assert main([*where, "--raw", "--limit", "3"]) == 0
    assert "Begin(" in capsys.readouterr().out


def test_tail_alone_leaves_nothing_behind(database: Database, tmp_path: Path) -> None:
    """A temporary slot and a publication of its own, both gone afterwards."""
    import subprocess
    import sys

    database.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE keyless (v text)")
    looking = subprocess.Popen(
        [sys.executable, "-m", "pgsluice.cli.main", "tail", "--source-url", database.url, "--limit", "2",
         "--state-dir", str(tmp_path / "none")],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'pgsluice_tail_%'"
    while database.rows(slots) == [(0,)]:
        assert looking.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    database.run("INSERT INTO t VALUES (1, 'it''s')", "INSERT INTO keyless VALUES ('x')", "DELETE FROM t")
    out, _ = looking.communicate(timeout=60)
    lines = out.splitlines()
    assert "INSERT    public.t  id='1' v='it''s'" in lines[0]
    assert "DELETE    public.t  id='1'" in lines[1]
    assert database.rows(slots) == [(0,)]
    assert database.rows("SELECT count(*) FROM pg_publication") == [(0,)]


def test_a_library_s_lines_go_to_standard_error(database: Database, tmp_path: Path) -> None:
    """A program that sets nothing up keeps its standard output, and sees no password."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)")
    program = f"""
from pgsluice import MemorySink, Pipeline, PostgresSource
from pgsluice.sinks.memory import MemoryStore
source = PostgresSource({database.url!r}, init=True)
Pipeline(source, MemorySink(MemoryStore()), state_dir={str(tmp_path)!r}).run(once=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "sink opened" in done.stderr
    assert database.server.password not in done.stderr
