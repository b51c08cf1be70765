"""
What the driver has to remember beside the log: one SQLite file in the state directory, for its owner only.

Its format has a number. An older one is brought up to date by the numbered upgrades below when it is opened,
a newer one is refused. Never here: how far a sink is, which is in its own target.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Final

from pgsluice.errors import MachineError, StateFormatError

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "state.db"
_BUSY_MILLISECONDS: Final = 10_000

UPGRADES: tuple[str, ...] = (
    """
    CREATE TABLE letter (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        sink TEXT NOT NULL,
        target_table TEXT NOT NULL,
        commit_lsn INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        op TEXT NOT NULL,
        version INTEGER NOT NULL,
        key_columns TEXT NOT NULL,  -- a list of names
        keys TEXT NOT NULL,  -- a list of keys: of the row before and after, each a list of texts
        waits_for INTEGER,  -- another letter
        code TEXT NOT NULL,
        message TEXT NOT NULL,
        target_column TEXT,
        noted_at REAL NOT NULL,
        status TEXT NOT NULL DEFAULT 'open',
        closed_at REAL,
        overtaken_at INTEGER,  -- closed once the sink is at this LSN
        asked INTEGER NOT NULL DEFAULT 0,  -- people want it to be replayed
        replay INTEGER,  -- closed once the sink has made this replay
        UNIQUE (sink, commit_lsn, seq, target_table)
    );
    CREATE INDEX open_letter ON letter (sink, commit_lsn, seq) WHERE status = 'open';
    """,
)
"""Each brings the format to its number, from 1. Never edit one that was released."""


def open_state(state_dir: Path) -> sqlite3.Connection:
    """The file of a state directory, made or brought up to date; what is committed to it is on the disk."""
    path = state_dir / NAME
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as exc:
        raise MachineError(
            f"can't open {path}: {exc.strerror}", remedy="Mend its rights: it belongs to the run's user"
        ) from exc
    # A loop opens it in one thread and goes on in another, never in both at once.
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        db.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        _upgrade(db, path)
    except sqlite3.DatabaseError as exc:
        db.close()
        raise StateFormatError(f"{path} can't be read: {exc}", remedy="Restore it from a backup") from exc
    except BaseException:
        db.close()
        raise
    return db


def _upgrade(db: sqlite3.Connection, path: Path) -> None:
    if _format(db, path) == len(UPGRADES):
        return
    db.execute("BEGIN IMMEDIATE")  # two processes may open it at the same time
    try:
        for number in range(_format(db, path), len(UPGRADES)):
            for statement in UPGRADES[number].split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number + 1}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _format(db: sqlite3.Connection, path: Path) -> int:
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > len(UPGRADES):
        raise StateFormatError(
            f"{path} was written by a newer pgsluice (format {found}, this one knows {len(UPGRADES)})",
            remedy="Use that version, or another state directory",
        )
    return found
