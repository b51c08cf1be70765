"""Whole pipelines into files: the first copy under traffic, the stream after it, and back to tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import pytest

from pgsluice import BatchOptions, Chain, FilesSink
from pgsluice.cli.main import main
from pgsluice.sinks.files import FilesConfig
from tests.pipeline.test_copy import TABLES, Traffic, cut_small, filled, pipeline
from tests.pipeline.test_run import source_rows
from tests.sinks.files.feed import Feed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

__all__ = ["filled"]  # a fixture

Format = Literal["parquet", "jsonl"]
TASKS = BatchOptions(decode="tasks", small_bytes=0, without_spark_bytes=0)


def sink(tmp_path: Path, form: Format = "parquet") -> FilesSink:
    """A sink on the feed of a test; its files are small, so that tables have several."""
    return FilesSink(FilesConfig(path=tmp_path / "feed", format=form, file_bytes=200_000))


def compare(database: Database, tmp_path: Path) -> int:
    """Fold the feed and compare its tables with the source, row by row; gives how many rows."""
    held = Feed(tmp_path / "feed").tables()
    compared = 0
    for name in (*TABLES, "parent"):
        wanted = source_rows(database, f"ONLY {name}")
        assert sorted(held.get(f"public.{name}", []), key=repr) == wanted, name
        compared += len(wanted)
    assert sorted(held["public.Odd %s näme"]) == [("1", "x"), ("2", None)]
    print(f"compared {compared} rows")
    return compared


def change(database: Database) -> None:
    """Something of everything."""
    database.run(
        "UPDATE item SET price = price + 1 WHERE id <= 100",
        "UPDATE item SET id = -id WHERE id % 100 = 0",
        "DELETE FROM item WHERE id BETWEEN 500 AND 600",
        "DELETE FROM line WHERE ctid IN (SELECT ctid FROM line LIMIT 7)",
        "TRUNCATE leaf1",
        "INSERT INTO root VALUES (7777, '2026-02-28')",
        "SELECT pg_logical_emit_message(true, 'note', 'between')",
    )


@pytest.mark.spark
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_a_copy_under_traffic_and_its_stream(
    filled: Database,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    form: Format,
    way: str,
) -> None:
    """The tables as they are, then every change, by both ways; folded, the feed is the source."""
    options: dict[str, Any] = {}
    if way == "tasks":
        cut_small(monkeypatch)
        options["batch"] = TASKS
    with Traffic(filled) as traffic:
        pipeline(filled, sink(tmp_path, form), tmp_path, **options).run(once=True)
    assert traffic.done > 5
    change(filled)
    pipeline(filled, sink(tmp_path, form), tmp_path, **options).run(once=True)
    assert compare(filled, tmp_path) > 4000
    ops = {change["op"] for _, change in Feed(tmp_path / "feed").changes()}
    assert ops == {"S", "I", "U", "D", "T"}
    assert len(list((tmp_path / "feed" / "messages").iterdir())) == 1


class Interrupted(FilesSink):
    """Fails for good before its n-th batch, as a process that is killed there."""

    def __init__(self, config: FilesConfig, before: int) -> None:
        super().__init__(config)
        self._left = before

    def apply(self, batch: Any) -> None:
        """Apply, or fail."""
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("killed")
        super().apply(batch)


@pytest.mark.spark
def test_a_copy_that_is_broken_off(
    filled: Database,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that was copied in part is emptied in the feed and copied again; the reader sees that, too."""
    cut_small(monkeypatch)
    config = FilesConfig(path=tmp_path / "feed")
    broken = 0
    with Traffic(filled):
        for before in (1, 2, 1):
            try:
                pipeline(filled, Interrupted(config, before), tmp_path).run(once=True)
            except RuntimeError:
                broken += 1
            filled.run("VACUUM FULL item")  # else it would be gone on with
    assert broken == 3
    pipeline(filled, sink(tmp_path), tmp_path).run(once=True)
    assert compare(filled, tmp_path) > 4000
    emptied = [table.name for table, change in Feed(tmp_path / "feed").changes() if change["op"] == "T"]
    assert "item" in emptied


@pytest.mark.spark
def test_rows_that_a_modifier_has_changed(
    filled: Database,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """What is written by tasks has gone through the chain."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    chain = Chain([lambda frame, _: frame.where(F.col("table") == "line")])
    pipeline(filled, sink(tmp_path), tmp_path, chain=chain, batch=TASKS).run(once=True)
    filled.run("DELETE FROM line WHERE n = 3", "DELETE FROM item WHERE id < 9")
    pipeline(filled, sink(tmp_path), tmp_path, chain=chain, batch=TASKS).run(once=True)
    held = Feed(tmp_path / "feed").tables()
    assert list(held) == ["public.line"]
    assert sorted(held["public.line"], key=repr) == source_rows(filled, "line")


def test_the_commands(
    filled: Database,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``run``, ``snapshot`` and ``status`` with this target; a reader finds the rows at once."""
    feed, state = tmp_path / "feed", tmp_path / "state"
    source = ["--source-url", filled.url, "--state-dir", str(state)]
    target = ["--target", "files", "--target-url", str(feed)]
    assert main(["run", *source, *target, "--init", "--once"]) == 0
    query = f"SELECT count(*) FROM '{feed}/public.item/*.parquet'"
    assert duckdb.sql(query).fetchall() == filled.rows("SELECT count(*) FROM item")
    capsys.readouterr()
    assert main(["status", *source, "--json"]) == 0
    [shown] = json.loads(capsys.readouterr().out)["sinks"]
    assert shown["name"] == "files"
    token = json.loads(Feed(feed).token("main") or "{}")
    assert shown["position"] == token["lsn"]
    once = tmp_path / "once"
    copied = ["--name", "once", "--state-dir", str(tmp_path / "second")]
    assert main(["snapshot", "--source-url", filled.url, *copied, *target[:3], str(once)]) == 0
    found = duckdb.sql(f"SELECT count(*) FROM '{once}/public.item/*.parquet'").fetchall()
    assert found == filled.rows("SELECT count(*) FROM item")
