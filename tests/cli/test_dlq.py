"""``pgsluice dlq``: what people type, with and without a run, and what they are told."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pgsluice.changelog.consumers import Consumers
from pgsluice.cli.main import main
from pgsluice.state.dead_letter import LetterBook
from tests.fix_pg import create_database, drop_database
from tests.pipeline.letters import Postgres, letters, prepare, source_rows
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_pg import Database

SECRET = "canary-4711"
MAP = "schema_map: {public: elsewhere}"


@pytest.fixture
def config(database: Database, target_database: Database, tmp_path: Path) -> Path:
    """A pipeline with two letters of one row: refused, and waiting behind it."""
    target = Postgres(target_database)
    prepare(database, tmp_path)
    target.refuse()
    path = tmp_path / "c.yaml"
    path.write_text(
        f"state_dir: {tmp_path}/state\non_error: dead_letter\nbatch: {{max_rows: 1}}\n"
        f"source: {{postgres: {{url: '{database.url}', mode: replication}}}}\n"
        f"target: {{postgres: {{url: '{target_database.url}'}}}}\n"
    )
    database.run(
        f"INSERT INTO item VALUES (1, 13, '{SECRET}')",
        "INSERT INTO item VALUES (2, 2, 'y')",
        "UPDATE item SET t = 'x' WHERE id = 1",
    )
    return path


def run(config: Path, *arguments: str) -> int:
    """A command line."""
    return main([*arguments, "-c", str(config), "--log-level", "error"])


def test_without_a_run(
    config: Path, database: Database, target_database: Database, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Listed, shown, refused again while the target is not mended, then replayed: both sides are equal."""
    assert run(config, "dlq", "list") == 0
    assert capsys.readouterr().out == "no open dead letters\n"
    assert run(config, "run", "--once") == 0
    capsys.readouterr()
    assert run(config, "dlq", "list", "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["table"], first["op"], first["code"]) == ("public.item", "I", "SLUICE-TARGET-SCHEMA")
    assert (second["op"], second["waits_for"]) == ("U", first["id"])
    assert run(config, "dlq", "show", str(first["id"])) == 0
    assert f"t = {SECRET}" in capsys.readouterr().out
    assert run(config, "dlq", "replay", str(first["id"])) == 1
    said = capsys.readouterr().out
    assert said.startswith("0 replayed, 1 still open; 1 more open\n")
    assert "luck" in said
    Postgres(target_database).mend()
    assert run(config, "dlq", "replay", str(second["id"])) == 0
    assert capsys.readouterr().out == "1 replayed, 0 still open\n"
    assert letters(tmp_path) == []  # the one that it waited for too
    rows = source_rows(database, "item")
    assert source_rows(target_database, "item") == rows
    print(f"compared {len(rows)} rows")
    assert run(config, "dlq", "list", "--all") == 0
    assert capsys.readouterr().out.count("replayed") == 2
    assert run(config, "status") == 0


def test_nothing_of_a_row_is_told(
    config: Path, target_database: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither log lines nor errors, ``status`` nor ``dlq list`` have a value; ``status`` names the remedy."""
    target_database.run("ALTER TABLE item DROP COLUMN t", "ALTER TABLE item ADD t int")
    assert main(["run", "--once", "-c", str(config), "--log-level", "debug"]) == 0
    assert len(letters(tmp_path)) == 3
    for arguments in (["status"], ["status", "--json"], ["dlq", "list"], ["dlq", "list", "--json"]):
        run(config, *arguments)
    assert run(config, "status") == 1
    assert run(config, "dlq", "replay", "--all") == 1
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err
    assert "3 changes that postgres could not take wait as dead letters" in said.out
    assert "pgsluice dlq list" in said.out
    assert (tmp_path / "state" / "state.db").stat().st_mode & 0o777 == 0o600


def test_while_a_run_is_active(
    config: Path, database: Database, target_database: Database, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The run replays between two batches, goes on with the stream, and hears of discarded letters."""
    command = [sys.executable, "-m", "pgsluice", "run", "-c", str(config), "--log-level", "error"]
    with subprocess.Popen(command) as process:
        try:
            wait_until(lambda: len(letters(tmp_path)) == 2)
            assert run(config, "dlq", "replay", "--all") == 1
            Postgres(target_database).mend()
            assert run(config, "dlq", "replay", "--all") == 0
            assert capsys.readouterr().out.endswith("2 replayed, 0 still open\n")
            target_database.run("ALTER TABLE item ADD CONSTRAINT luck CHECK (n <> 13) NOT VALID")
            database.run("INSERT INTO item VALUES (3, 13, 'z')")
            (letter,) = wait_until(lambda: letters(tmp_path))
            assert run(config, "dlq", "discard", str(letter.id), "--yes") == 0
            database.run("UPDATE item SET n = 5 WHERE id = 3", "INSERT INTO item VALUES (4, 4, '')")
            wait_until(lambda: (4, 4, "") in source_rows(target_database, "item"))
        finally:
            process.terminate()
    assert process.returncode == 0
    assert letters(tmp_path) == []
    rows = source_rows(database, "item")
    assert source_rows(target_database, "item") == rows
    print(f"compared {len(rows)} rows")


def test_letters_that_are_none(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown numbers are an error, discarding asks, and ``targets forget`` is refused while one is open."""
    assert run(config, "run", "--once") == 0
    first, second = letters(tmp_path)
    assert run(config, "dlq", "replay", "99") == 2
    assert "there is no open letter 99" in capsys.readouterr().err
    assert run(config, "dlq", "discard") == 2
    assert run(config, "dlq", "show", "99") == 2
    monkeypatch.setattr("typer.confirm", lambda *_, **__: pytest.fail("asked"))
    assert run(config, "dlq", "discard", str(first.id), "--yes") == 0
    assert letters(tmp_path) == [replace(second, waits_for=None)]
    with closing(LetterBook(tmp_path / "state")) as book:
        assert [letter.status for letter in book.letters(closed=True)] == ["discarded", "open"]
    assert run(config, "targets", "forget", "postgres") == 2
    assert "has 1 open dead letters: rows that it does not have" in capsys.readouterr().err
    assert len(letters(tmp_path)) == 1
    assert run(config, "dlq", "discard", str(second.id), "--yes") == 0
    assert run(config, "targets", "forget", "postgres") == 0
    assert Consumers(tmp_path / "state" / "log").all() == []


def test_destroy_takes_letters_along(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their rows are in the log that goes; nothing of the pipeline stays here."""
    assert run(config, "run", "--once") == 0
    state = tmp_path / "state"
    assert (state / "state.db").exists()
    assert run(config, "destroy", "--dry-run") == 0
    assert "would remove the dead letters in " in capsys.readouterr().out
    assert (state / "state.db").exists()
    assert run(config, "destroy") == 0
    assert not state.exists()


def test_another_configuration_than_the_runs(
    config: Path, database: Database, target_database: Database, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Under it a letter is another table's, or nobody's: it is not closed as if it were applied."""
    assert run(config, "run", "--once") == 0
    Postgres(target_database).mend()
    rightly = config.read_text()
    config.write_text(f"{rightly}modifiers: {{filter: {{exclude_tables: [public.item]}}}}\n")
    assert run(config, "dlq", "replay", "--all") == 1
    assert "Replay with the schema_map, the tables and the filter" in capsys.readouterr().out
    config.write_text(
        rightly.replace(f"url: '{target_database.url}'", f"url: '{target_database.url}', {MAP}")
    )
    assert run(config, "dlq", "replay", "--all") == 2
    assert "was filled with the names of the source" in capsys.readouterr().err
    assert len(letters(tmp_path)) == 2
    config.write_text(rightly)
    assert run(config, "dlq", "replay", "--all") == 0
    assert source_rows(target_database, "item") == source_rows(database, "item")


@pytest.mark.parametrize("command", [("dlq", "replay", "--all"), ("run", "--once")])
def test_another_database_than_the_runs(
    config: Path, database: Database, target_database: Database, pg18: EmbeddedPostgres, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...],
) -> None:  # fmt: skip
    """A mistyped address: the letters are not closed because a target of that name has no rows yet."""
    assert run(config, "run", "--once") == 0
    Postgres(target_database).mend()
    rightly = config.read_text()
    other = create_database(pg18)
    try:
        config.write_text(rightly.replace(target_database.url, other.url))
        assert run(config, *command) == 2
        assert "has nothing of this pipeline, but 2 open dead letters" in capsys.readouterr().err
    finally:
        drop_database(other)
    assert len(letters(tmp_path)) == 2
    config.write_text(rightly)
    assert run(config, "dlq", "replay", "--all") == 0
    assert source_rows(target_database, "item") == source_rows(database, "item")


def test_a_stack_trace_tells_no_value(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server's own words have the whole row in them; the trace names what was raised, and where."""
    config.write_text(config.read_text().replace("on_error: dead_letter\n", ""))
    assert main(["run", "--once", "-c", str(config), "--log-level", "debug"]) == 4
    said = capfd.readouterr().err
    assert SECRET not in said
    assert "psycopg.errors.CheckViolation\n" in said
    assert "Traceback" in said
