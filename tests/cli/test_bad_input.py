"""Bad input and broken parts: one clear line with code and remedy, the right exit code, nothing half-made."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.cli.main import main
from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_pg import Database


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code and the error line of a command; it must be one line, without a stack trace."""
    code = main([*arguments, "--once"] if arguments[0] == "run" else arguments)
    said = capsys.readouterr().err
    errors = [line for line in said.splitlines() if "error SLUICE-" in line]
    assert "Traceback" not in said
    assert len(errors) == 1, said
    return code, errors[0]


def objects(database: Database) -> list[tuple[object, ...]]:
    """What init would make: schema, publication, slot."""
    return database.rows(
        "SELECT 'schema', nspname::text FROM pg_namespace WHERE nspname = 'pgsluice'"
        " UNION ALL SELECT 'publication', pubname::text FROM pg_publication"
        " UNION ALL SELECT 'slot', slot_name::text FROM pg_replication_slots"
        " WHERE database = current_database()"
    )


def everything_below(place: Path) -> list[str]:
    """The files and directories that a command left."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


def test_wrong_password(capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path) -> None:
    """The server's refusal is named, the password is not."""
    code, line = run(capsys, *to_duckdb(tmp_path, database.url_as("postgres", "s3cret-wrong")))
    assert (code, "SLUICE-SOURCE-REFUSED" in line) == (3, True)
    assert "s3cret" not in line
    assert objects(database) == []
    assert everything_below(tmp_path) == []


def test_missing_right(capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path) -> None:
    """A role without REPLICATION learns what to grant, and nothing is made."""
    role = f"weak_{database.name}"
    database.run(f"CREATE ROLE {role} LOGIN PASSWORD 'w'", "CREATE TABLE t (id int PRIMARY KEY)")
    try:
        code, line = run(capsys, *to_duckdb(tmp_path, database.url_as(role, "w")))
        assert code == 3
        assert "REPLICATION" in line
        assert objects(database) == []
        assert everything_below(tmp_path) == []
    finally:
        database.run(f"DROP ROLE {role}")


def test_unreachable_host(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nobody listens there: said at once, not tried for ever."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, line = run(capsys, *to_duckdb(tmp_path, f"postgresql://nobody@127.0.0.1:{port}/none"))
    assert (code, "SLUICE-SOURCE-UNREACHABLE" in line) == (3, True)
    assert everything_below(tmp_path) == []


def test_wal_level(
    capsys: pytest.CaptureFixture[str], physical_only: EmbeddedPostgres, tmp_path: Path
) -> None:
    """A server that can't do logical replication: the setting, the statement, and nothing made."""
    code, line = run(capsys, *to_duckdb(tmp_path, physical_only.url))
    assert (code, "SLUICE-WAL-LEVEL" in line) == (3, True)
    assert "wal_level is replica" in line
    assert "ALTER SYSTEM SET wal_level = logical; then restart the server" in line
    with psycopg.connect(physical_only.url) as connection:
        assert connection.execute("SELECT FROM pg_namespace WHERE nspname = 'pgsluice'").fetchall() == []
    assert everything_below(tmp_path) == []


def test_a_refused_run_takes_only_its_own_directories_away(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path
) -> None:
    """A state directory that was there before stays, with what is in it."""
    kept = tmp_path / "state" / "kept"
    kept.mkdir(parents=True)
    run(capsys, *to_duckdb(tmp_path, database.url_as("postgres", "wrong")))
    assert everything_below(tmp_path) == ["state", "state/kept"]


def test_not_initialized(capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path) -> None:
    """A run without --init on a fresh source names the command that prepares it."""
    arguments = [a for a in to_duckdb(tmp_path, database.url) if a != "--init"]
    code, line = run(capsys, *arguments)
    assert (code, "SLUICE-NOT-INITIALIZED" in line, "pgsluice init" in line) == (3, True, True)
    assert objects(database) == []


def test_state_directory_that_can_not_be_made(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path
) -> None:
    """A place that can't be written is found before anything is made on the source."""
    (tmp_path / "file").write_text("not a directory")
    arguments = to_duckdb(tmp_path, database.url)
    arguments[arguments.index("--state-dir") + 1] = str(tmp_path / "file" / "state")
    code, line = run(capsys, *arguments)
    assert (code, "SLUICE-MACHINE" in line, "--state-dir" in line) == (2, True, True)
    assert objects(database) == []


def test_state_directory_that_is_read_only(
    capsys: pytest.CaptureFixture[str], database: Database, reachable: Path
) -> None:
    """It is there, and can't be written: found before anything is made on the source."""
    arguments = to_duckdb(reachable, database.url)
    run(capsys, *to_duckdb(reachable, database.url_as("postgres", "wrong")))  # imports what others can't read
    (reachable / "state").mkdir(mode=0o555)
    with without_root():
        code, line = run(capsys, *arguments)
    assert (code, "SLUICE-MACHINE" in line, "--state-dir" in line) == (2, True, True)
    assert f"can't write to {reachable / 'state'}: Permission denied" in line
    assert objects(database) == []
    assert everything_below(reachable) == ["state"]


def test_target_that_can_not_be_written(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path
) -> None:
    """The target's errors have an exit code of their own, and the line names the place."""
    arguments = to_duckdb(tmp_path, database.url)
    arguments[arguments.index("--target-url") + 1] = str(tmp_path / "missing" / "x.duckdb")
    code, line = run(capsys, *arguments)
    assert (code, "SLUICE-TARGET" in line, str(tmp_path / "missing") in line) == (4, True, True)
    assert not (tmp_path / "missing").exists()


def test_debug_shows_the_trace(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path
) -> None:
    """Only --log-level debug shows where a real error came from, and no password even then."""
    arguments = to_duckdb(tmp_path, database.url_as("postgres", "s3cret-wrong"))
    assert main([*arguments, "--once", "--log-level", "debug"]) == 3
    said = capsys.readouterr().err
    assert "error SLUICE-SOURCE-REFUSED: " in said
    assert "Traceback (most recent call last)" in said
    assert "s3cret" not in said


@contextlib.contextmanager
def without_root() -> Iterator[None]:
    """Rights count for everybody but root."""
    as_root = os.geteuid() == 0
    if as_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if as_root:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nmae: shop\n", "name"),
        ("name: [unclosed\n", "line"),
        ("target: {duckdb: {path: x}}\n", "source"),
        ("source: {postgres: {url: 'postgresql://h/d'}}\n", "target"),
        ("source: {postgres: {url: 'postgresql://h/d'}}\ntarget: {ducdkb: {path: x}}\n", "duckdb"),
    ],
    ids=["unknown key", "bad YAML", "no source", "no target", "unknown target"],
)
def test_bad_configuration(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    content: str,
    says: str,
) -> None:
    """What is wrong in a file is named with its key, and the exit code is 2."""
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "config.yaml"
    path.write_text(content)
    code, line = run(capsys, "run", "-c", str(path), "--state-dir", str(tmp_path / "state"))
    assert (code, says in line) == (2, True), line
    assert everything_below(tmp_path) == ["config.yaml"]


def test_destroy_without_a_trace(
    capsys: pytest.CaptureFixture[str], database: Database, tmp_path: Path
) -> None:
    """After run and destroy neither the source nor the state directory has anything of ours."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    before = objects(database)
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    assert objects(database) != before
    where = ["--source-url", database.url, "--state-dir", str(tmp_path / "state")]
    assert main(["destroy", *where, "--dry-run"]) == 0
    assert "would remove the change log" in capsys.readouterr().out
    assert main(["destroy", *where]) == 0
    assert objects(database) == before
    assert not (tmp_path / "state" / "log").exists()
