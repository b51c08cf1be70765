"""``pgsluice resync`` and ``pgsluice targets forget``: what people type, and what they are told."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import duckdb

from pgsluice.changelog.consumers import Consumers
from pgsluice.cli.main import main
from pgsluice.state.requests import Requests
from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.fix_pg import Database

ROWS = 2000


def fill(database: Database) -> None:
    """Two tables."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY, n int)",
        f"INSERT INTO item SELECT g, g FROM generate_series(1, {ROWS}) g",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO other VALUES (1)",
    )


def asked(database: Database, place: Path, table: str = "item") -> list[str]:
    """The command line that asks for a copy."""
    return ["resync", table, "--source-url", database.url, "--state-dir", str(place / "state")]


def test_while_nothing_runs(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next run does it, and says so; asked twice, it is done once."""
    fill(database)
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    with duckdb.connect(str(tmp_path / "x.duckdb")) as conn:
        conn.execute("DELETE FROM public.item WHERE id > 100")
    capsys.readouterr()
    for _ in range(2):
        assert main(asked(database, tmp_path)) == 0
        said = capsys.readouterr().out
        assert said == "the next `pgsluice run` copies public.item anew into duckdb\n"
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    assert capsys.readouterr().err.count("tables copied anew are in place") == 1
    with duckdb.connect(str(tmp_path / "x.duckdb")) as conn:
        assert conn.sql("SELECT count(*), sum(n) FROM public.item").fetchall() == [
            (ROWS, ROWS * (ROWS + 1) // 2)
        ]


def test_of_a_running_pipeline_that_is_killed(database: Database, tmp_path: Path) -> None:
    """Killed at moments of the copy again and again; the last run ends with what the source has."""
    fill(database)
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    with duckdb.connect(str(tmp_path / "x.duckdb")) as conn:
        conn.execute("DELETE FROM public.item WHERE id > 100")
    for seconds in (2.0, 2.6, 3.2):
        command = [sys.executable, "-m", "pgsluice", *to_duckdb(tmp_path, database.url)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as run:
            assert main(asked(database, tmp_path)) == 0
            time.sleep(seconds)
            run.send_signal(signal.SIGKILL)
        database.run(
            "UPDATE item SET n = n + 1 WHERE id % 2 = 0", "INSERT INTO other SELECT max(id) + 1 FROM other"
        )
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    assert not list(Requests(tmp_path / "state").open())
    with duckdb.connect(str(tmp_path / "x.duckdb")) as conn:
        held = conn.sql("SELECT * FROM public.item ORDER BY 1").fetchall()
        assert conn.sql("SELECT count(*) FROM public.other").fetchall() == [(4,)]
        left = conn.sql("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'pgsluice'").fetchall()
    assert held == database.rows("SELECT * FROM item ORDER BY 1")
    assert left == [("progress",)]
    print(f"{len(held)} rows compared")


def test_a_table_that_is_not_there(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, the nearest name, and nothing is asked for."""
    fill(database)
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    assert main(asked(database, tmp_path, "itm")) == 2
    assert "public.itm is not a table of the publication" in (said := capsys.readouterr().err)
    assert "public.item" in said
    assert not list(Requests(tmp_path / "state").open())


def test_forget_a_target(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log is no longer kept for it; one that there isn't is named with those that there are."""
    fill(database)
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    place = ["--state-dir", str(tmp_path / "state")]
    consumers = Consumers(tmp_path / "state" / "log")
    assert [each.name for each in consumers.all()] == ["duckdb"]
    capsys.readouterr()
    assert main(["targets", "forget", "postgres", *place]) == 2
    assert "Name one of: duckdb" in capsys.readouterr().err
    assert main(["targets", "forget", *place]) == 2
    assert main(["targets", "forget", "duckdb", *place]) == 0
    assert capsys.readouterr().out.startswith("forgot duckdb, which stood at 0/")
    assert consumers.all() == []


def test_a_target_in_use_is_not_forgotten(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run would say at its next batch what it needs."""
    fill(database)
    command = [sys.executable, "-m", "pgsluice", *to_duckdb(tmp_path, database.url)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as run:
        consumers = Consumers(tmp_path / "state" / "log")
        for _ in range(300):
            if consumers.all():
                break
            time.sleep(0.1)
        assert main(["targets", "forget", "duckdb", "--state-dir", str(tmp_path / "state")]) == 3
        run.terminate()
    assert "is in use by the run of process" in capsys.readouterr().err
    assert [each.name for each in consumers.all()] == ["duckdb"]
