"""Killed around the notes about dead letters and their replay: no row is lost, doubled or reordered."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.letters import DuckDB, Postgres, Target, ask, letters, prepare, source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.fixture(params=["postgres", "duckdb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A target of each kind."""
    if request.param == "duckdb":
        return DuckDB(tmp_path / "x.duckdb")
    return Postgres(request.getfixturevalue("target_database"))


@pytest.fixture
def config(request: pytest.FixtureRequest, database: Database, target: Target, tmp_path: Path) -> Path:
    """The configuration of a pipeline into it."""
    prepare(database, tmp_path, "item", "bag")
    target.refuse("item", "bag")
    kind = (
        f"duckdb: {{path: {target.path}}}"
        if isinstance(target, DuckDB)
        else f"postgres: {{url: '{request.getfixturevalue('target_database').url}'}}"
    )
    path = tmp_path / "c.yaml"
    path.write_text(
        f"state_dir: {tmp_path}/state\non_error: dead_letter\nbatch: {{max_rows: 1}}\n"
        f"source: {{postgres: {{url: '{database.url}', mode: replication}}}}\n"
        f"target: {{{kind}}}\n"
    )
    return path


def command(config: Path, *arguments: str, failpoint: str = "") -> int:
    """Run a command to its end, perhaps a violent one."""
    done = subprocess.run(
        [sys.executable, "-m", "pgsluice", *arguments, "-c", str(config)],
        env={**os.environ, "PGSLUICE_FAILPOINT": failpoint}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    print(arguments, failpoint, done.returncode, done.stderr[-500:])
    return done.returncode


NOTES = ["letters.before_note", "letters.after_note", "sink.before_commit", "sink.after_commit"]


def test_killed_around_the_notes(config: Path, database: Database, target: Target, tmp_path: Path) -> None:
    """The letters come again, once each; killed around the replay, each is applied once."""
    for table in ("item", "bag"):
        database.run(
            f"INSERT INTO {table} VALUES (1, 13, 'a'), (2, 2, 'b')",
            f"UPDATE {table} SET t = 'c' WHERE id = 1",
            f"INSERT INTO {table} VALUES (3, 3, 'd')",
        )
    for place in NOTES:
        assert command(config, "run", "--once", failpoint=place) == -9
    assert command(config, "run", "--once") == 0
    assert [(letter.table, letter.op) for letter in letters(tmp_path)] == [
        ("public.item", "I"), ("public.item", "U"), ("public.bag", "I"), ("public.bag", "U"),
    ]  # fmt: skip
    for table in ("item", "bag"):
        wanted = [row for row in source_rows(database, table) if row[0] != 1]
        assert target.rows(table) == wanted
    target.mend("item", "bag")
    assert command(config, "dlq", "replay", "--all", failpoint="letters.before_replay") == -9
    assert len(letters(tmp_path)) == 4
    assert (
        command(config, "dlq", "replay", str(letters(tmp_path)[0].id), failpoint="letters.after_replay") == -9
    )
    # The run finds that the first two are applied; it is killed while it replays the others itself.
    ask(tmp_path)
    assert command(config, "run", "--once", failpoint="letters.after_replay") == -9
    assert command(config, "run", "--once") == 0
    assert letters(tmp_path) == []
    compared = 0
    for table in ("item", "bag"):
        wanted = source_rows(database, table)
        assert target.rows(table) == wanted
        compared += len(wanted)
    print(f"compared {compared} rows")


def test_killed_after_a_truncate(config: Path, database: Database, target: Target, tmp_path: Path) -> None:
    """A TRUNCATE that was applied right before the kill closes its letters at the next start."""
    database.run("INSERT INTO item VALUES (1, 13, 'a'), (2, 2, 'b')")
    assert command(config, "run", "--once") == 0
    database.run("TRUNCATE item")
    for place in ("sink.before_commit", "sink.after_commit"):
        assert command(config, "run", "--once", failpoint=place) == -9
        assert len(letters(tmp_path)) == 1
    assert command(config, "dlq", "replay", "--all") == 0
    assert [letter.status for letter in letters(tmp_path, closed=True)] == ["overtaken"]
    assert target.rows("item") == source_rows(database, "item") == []
