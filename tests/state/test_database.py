"""The file of the driver's own records: its rights, its upgrades, and files that it refuses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from pgsluice.errors import StateFormatError
from pgsluice.state import database
from pgsluice.state.database import NAME, open_state

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_file(tmp_path: Path) -> None:
    """It is for its owner only, and has the newest format; what is committed is synced."""
    with closing(open_state(tmp_path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == len(database.UPGRADES)
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE written (n)")
        db.execute("COMMIT")
        assert {path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{NAME}*")} == {0o600}


def test_an_older_format_is_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the steps that it lacks, each once, and what was in it stays."""
    first = database.UPGRADES[:1]
    monkeypatch.setattr(database, "UPGRADES", first)
    with closing(open_state(tmp_path)) as db:
        db.execute("CREATE TABLE kept AS SELECT 7 AS n")
    steps = (*first, "ALTER TABLE kept ADD COLUMN m INTEGER;\n", "UPDATE kept SET m = coalesce(m, 0) + n")
    monkeypatch.setattr(database, "UPGRADES", steps)
    for _ in range(2):
        with closing(open_state(tmp_path)) as db:
            assert tuple(db.execute("SELECT * FROM kept").fetchone()) == (7, 7)
            assert db.execute("PRAGMA user_version").fetchone()[0] == 3


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps are one transaction."""
    open_state(tmp_path).close()
    old = database.UPGRADES
    monkeypatch.setattr(database, "UPGRADES", (*old, "CREATE TABLE a (b)", "nonsense"))
    with pytest.raises(StateFormatError):
        open_state(tmp_path)
    monkeypatch.setattr(database, "UPGRADES", old)
    with closing(open_state(tmp_path)) as db:
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'a'").fetchall() == []


def test_files_that_are_refused(tmp_path: Path) -> None:
    """A newer format, and something else altogether: one line says what to do, and nothing is changed."""
    with closing(sqlite3.connect(tmp_path / NAME)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StateFormatError, match="newer pgsluice \\(format 99") as caught:
        open_state(tmp_path)
    assert caught.value.remedy
    (tmp_path / NAME).write_bytes(b"no database at all" * 100)
    with pytest.raises(StateFormatError, match="can't be read"):
        open_state(tmp_path)
    assert (tmp_path / NAME).read_bytes() == b"no database at all" * 100
