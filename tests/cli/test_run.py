"""``pgsluice run`` as people call it: what arrives, what is refused, what is said."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import duckdb
import pytest

from pgsluice import DuckDBSink
from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn
from pgsluice.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.sinks.base import Batch
    from tests.fix_pg import Database


@pytest.fixture
def shop(database: Database) -> Database:
    """Two tables."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)", "CREATE TABLE secret (id int PRIMARY KEY)")
    return database


def run(shop: Database, tmp_path: Path, *options: str, target: str = "duckdb") -> int:
    """``run --once`` into a file of the test's own, or to standard output."""
    where = ["--target-url", str(tmp_path / "shop.duckdb")] if target == "duckdb" else []
    source = ["--source-url", shop.url, "--state-dir", str(tmp_path / "state")]
    return main(["run", *source, "--target", target, *where, "--once", *options])


def arrived(tmp_path: Path, table: str) -> list[int]:
    """The keys that the file holds."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        return [row[0] for row in connection.execute(f"SELECT id FROM public.{table} ORDER BY id").fetchall()]


@pytest.mark.spark
def test_lines_on_standard_output(
    shop: Database, tmp_path: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first run prints what it finds, the next one only what is new."""
    assert run(shop, tmp_path, "--init", target="stdout") == 0
    shop.run("INSERT INTO item VALUES (1), (2)")
    assert run(shop, tmp_path, target="stdout") == 0
    shop.run("INSERT INTO item VALUES (3)")
    assert run(shop, tmp_path, target="stdout") == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    assert [line["columns"][0]["value"] for line in lines] == [1, 2, 3]


def test_a_table_that_is_excluded_later_is_not_carried(
    shop: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other tables than those that were prepared are refused, or applied with --init; never ignored."""
    assert run(shop, tmp_path, "--init") == 0
    shop.run("INSERT INTO item VALUES (1)", "INSERT INTO secret VALUES (1)")
    assert run(shop, tmp_path) == 0
    shop.run("INSERT INTO item VALUES (2)")
    assert run(shop, tmp_path, "--exclude-tables", "public.secret") == 3
    assert "SLUICE-TABLES-DIFFER" in capsys.readouterr().err
    assert run(shop, tmp_path, "--exclude-tables", "public.secret", "--init") == 0
    shop.run("INSERT INTO item VALUES (3)", "INSERT INTO secret VALUES (2)")
    assert run(shop, tmp_path, "--exclude-tables", "public.secret") == 0
    assert run(shop, tmp_path) == 0  # without tables: those that were prepared last
    assert arrived(tmp_path, "item") == [1, 2, 3]
    assert arrived(tmp_path, "secret") == [1]


def test_status_names_a_sink_that_the_log_left_behind(
    shop: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gap is a problem of its own, with exit code 1, and no lag of nothing."""
    assert run(shop, tmp_path, "--init") == 0
    Consumers(tmp_path / "state" / "log").release("left", Lsn(1))
    asked = ["status", "--source-url", shop.url, "--state-dir", str(tmp_path / "state")]
    capsys.readouterr()
    assert main(asked) == 1
    said = capsys.readouterr().out
    assert "left stands at 0/1" in said
    assert "SLUICE-SINK-BEHIND" in said


def test_a_target_without_its_place(shop: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the option that is missing."""
    assert main(["run", "--source-url", shop.url, "--target", "duckdb"]) == 2
    assert "--target-url" in capsys.readouterr().err


@pytest.mark.parametrize(("mode", "rows"), [("snapshot_and_replication", [1, 2]), ("replication", [2])])
def test_a_table_that_joins_late(
    shop: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str, rows: list[int]
) -> None:
    """Its rows of before are copied; with changes alone they are not, and that is not silent."""
    assert run(shop, tmp_path, "--init", "--mode", mode) == 0
    shop.run("CREATE TABLE born (id int PRIMARY KEY)", "INSERT INTO born VALUES (1)")
    capsys.readouterr()
    assert run(shop, tmp_path, "--mode", mode) == 0
    said = capsys.readouterr()
    warned = "rows that it had before are not carried" in said.err + said.out
    assert warned is (mode == "replication")
    shop.run("INSERT INTO born VALUES (2)")
    assert run(shop, tmp_path, "--mode", mode) == 0
    assert arrived(tmp_path, "born") == rows


def test_once_that_is_stopped_early_says_so(
    shop: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that waits for the end must not take a stopped run for one that has caught up."""
    assert run(shop, tmp_path, "--init") == 0
    apply = DuckDBSink.apply

    def stopped_meanwhile(sink: DuckDBSink, batch: Batch) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)  # the running batch is finished all the same
        apply(sink, batch)

    shop.run("INSERT INTO item VALUES (1)", "INSERT INTO item VALUES (2)")
    with monkeypatch.context() as patched:
        patched.setenv("PGSLUICE_BATCH__MAX_ROWS", "1")
        patched.setattr(DuckDBSink, "apply", stopped_meanwhile)
        assert run(shop, tmp_path) == 1
    assert "stopped before everything was applied" in capsys.readouterr().err
    assert arrived(tmp_path, "item") == [1]
    assert run(shop, tmp_path) == 0
    assert arrived(tmp_path, "item") == [1, 2]


@pytest.mark.parametrize("command", [["snapshot"], ["run", "--mode", "snapshot"]])
def test_a_snapshot_leaves_nothing_on_the_source(
    shop: Database, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables as they are, those without a key too; again it finds that all is there."""
    shop.run(
        "INSERT INTO item SELECT generate_series(1, 40)",
        "CREATE TABLE keyless (id int)",
        "INSERT INTO keyless VALUES (1), (1), (NULL)",
    )
    target = ["--target", "duckdb", "--target-url", str(tmp_path / "shop.duckdb")]
    where = ["--source-url", shop.url, "--state-dir", str(tmp_path / "state"), "--exclude-tables", "secret"]
    assert main([*command, *where, *target]) == 0
    assert arrived(tmp_path, "item") == list(range(1, 41))
    assert arrived(tmp_path, "keyless") == [1, 1, None]
    assert shop.rows("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [
        (0,)
    ]
    assert shop.rows("SELECT count(*) FROM pg_publication") == [(0,)]
    assert shop.rows("SELECT to_regnamespace('pgsluice') IS NULL") == [(True,)]
    capsys.readouterr()
    assert main([*command, *where, *target]) == 0
    assert "nothing was copied" in capsys.readouterr().err
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection, pytest.raises(duckdb.CatalogException):
        connection.execute("SELECT * FROM public.secret")
