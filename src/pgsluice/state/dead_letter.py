"""
The dead letters of a pipeline: which change which sink refused, where it stands in the log, and why.

The row itself is not here: the log keeps it. The key is, to find later changes of the same row.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pgsluice.changelog.position import Lsn, Position
from pgsluice.errors import LogUnwritableError
from pgsluice.state.database import NAME, open_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pgsluice.changelog.position import Progress

Status = Literal["open", "replayed", "discarded", "overtaken"]
"""``overtaken``: a TRUNCATE or a new copy of the table came later and was applied."""

OPEN: Final = "open"
DDL: Final = "DDL"
"""As the ``op`` of a letter: a change of the schema. Its ``version`` is the number of the object."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A change that a sink did not take."""

    table: str  # as the target calls it
    position: Position
    op: str
    version: int  # of the table
    key_columns: tuple[str, ...]
    keys: tuple[str, ...]  # JSON of the row's key before and after; none: every row of the table
    code: str
    message: str
    column: str | None = None
    behind: Position | None = None  # the letter that it waits for


@dataclass(frozen=True, slots=True)
class Letter(Refused):
    """One of them, as it was noted."""

    id: int = 0
    sink: str = ""
    noted_at: float = 0.0
    status: Status = "open"
    closed_at: float | None = None
    waits_for: int | None = None
    asked: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain data for people, without anything of the row."""
        return {
            "id": self.id,
            "sink": self.sink,
            "table": self.table,
            "commit_lsn": str(self.position.commit_lsn),
            "seq": self.position.seq,
            "op": self.op,
            "code": self.code,
            "message": self.message,
            "column": self.column,
            "waits_for": self.waits_for,
            "noted_at": _time(self.noted_at),
            "status": self.status,
            "closed_at": _time(self.closed_at),
        }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")


@dataclass(frozen=True, slots=True)
class Emptied:
    """A table of the target that a change of a batch empties: what was refused before it is of no use."""

    table: str
    position: Position


class LetterBook:
    """The letters of one state directory. The file is made with the first letter."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._opened: sqlite3.Connection | None = None
        self._seen = -1

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def exists(self) -> bool:
        """Whether there has ever been a letter."""
        return self._opened is not None or (self._state_dir / NAME).exists()

    def changed(self) -> bool:
        """Whether somebody else has written to it since the last call."""
        if not self.exists:
            return False
        seen, self._seen = self._seen, int(self._db.execute("PRAGMA data_version").fetchone()[0])
        return seen != self._seen

    def letters(self, sink: str | None = None, *, closed: bool = False) -> list[Letter]:
        """In the order of the stream; those that are open, or all."""
        if not self.exists:
            return []
        found = self._db.execute(
            "SELECT * FROM letter WHERE (sink = ?1 OR ?1 IS NULL) AND (status = ?2 OR ?3) "
            "ORDER BY commit_lsn, seq, id",
            (sink, OPEN, closed),
        )
        return [_letter(row) for row in found]

    def record(
        self, sink: str, since: Lsn, refused: Iterable[Refused], emptied: Iterable[Emptied], end: Lsn
    ) -> None:
        """
        Note what becomes of a batch before it is applied, instead of what was noted about it before.

        Args:
            since: where the batch begins; what comes from there on is not applied yet.
            emptied: letters before these are overtaken once the sink is at ``end``.
        """
        with self._transaction() as db:
            db.execute(
                "DELETE FROM letter WHERE sink = ? AND status = ? AND commit_lsn >= ?", (sink, OPEN, since)
            )
            db.execute("UPDATE letter SET overtaken_at = NULL WHERE sink = ? AND status = ?", (sink, OPEN))
            for each in refused:
                _insert(db, sink, each)
            for emptying in emptied:
                db.execute(
                    "UPDATE letter SET overtaken_at = ? WHERE sink = ? AND status = ? AND target_table = ? "
                    "AND (commit_lsn, seq) < (?, ?)",
                    (end, sink, OPEN, emptying.table, *emptying.position),
                )

    def passed(self, sink: str, end: Lsn) -> None:
        """The sink has applied everything up to ``end``."""
        with self._transaction() as db:
            _close(db, "overtaken", "sink = ? AND overtaken_at <= ?", (sink, end))

    def settle(self, sink: str, progress: Progress) -> None:
        """Bring the book in step with what a sink holds: a crash may have come between the two."""
        if not self.exists:
            return
        with self._transaction() as db:
            end = progress.end_lsn
            db.execute(
                "DELETE FROM letter WHERE sink = ? AND status = ? AND commit_lsn >= ?", (sink, OPEN, end)
            )
            _close(db, "overtaken", "sink = ? AND overtaken_at <= ?", (sink, end))
            _close(db, "replayed", "sink = ? AND replay <= ?", (sink, progress.replays))
            db.execute("UPDATE letter SET replay = NULL WHERE sink = ? AND status = ?", (sink, OPEN))

    def overtake(self, sink: str, tables: Iterable[str]) -> None:
        """Close the letters of tables whose rows are all replaced."""
        with self._transaction() as db:
            for table in tables:
                _close(db, "overtaken", "sink = ? AND target_table = ?", (sink, table))

    def begin_replay(self, letters: Sequence[Letter], number: int) -> None:
        """Note which letters a replay will close."""
        with self._transaction() as db:
            for letter in letters:
                db.execute("UPDATE letter SET replay = ? WHERE id = ?", (number, letter.id))

    def refuse(self, letter: Letter, refused: Refused) -> None:
        """A letter was refused again: note why."""
        with self._transaction() as db:
            db.execute(
                "UPDATE letter SET waits_for = ?, code = ?, message = ?, target_column = ?, asked = 0 "
                "WHERE id = ?",
                (_behind(db, letter.sink, refused), refused.code, refused.message, refused.column, letter.id),
            )

    def not_asked(self, letters: Iterable[Letter]) -> None:
        """What people asked for is done, or could not be done."""
        with self._transaction() as db:
            for letter in letters:
                db.execute("UPDATE letter SET asked = 0 WHERE id = ?", (letter.id,))

    def ask(self, letters: Iterable[Letter]) -> None:
        """Ask the run that has the sink to replay letters."""
        with self._transaction() as db:
            for letter in letters:
                db.execute("UPDATE letter SET asked = 1 WHERE id = ? AND status = ?", (letter.id, OPEN))

    def discard(self, letters: Iterable[Letter]) -> int:
        """Close letters whose rows are given up; how many. One that is being replayed stays."""
        with self._transaction() as db:
            which = "id = ? AND replay IS NULL"
            given_up = [each.id for each in letters if _close(db, "discarded", which, (each.id,))]
            for number in given_up:  # nothing waits for it any more
                db.execute("UPDATE letter SET waits_for = NULL WHERE waits_for = ?", (number,))
            return len(given_up)

    @property
    def _db(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = open_state(self._state_dir)
        return self._opened

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except BaseException as exc:
            if db.in_transaction:
                db.execute("ROLLBACK")
            if isinstance(exc, sqlite3.OperationalError):
                raise LogUnwritableError(f"dead letters can't be noted in {NAME}: {exc}") from exc
            raise


def _behind(db: sqlite3.Connection, sink: str, refused: Refused) -> int | None:
    """The letter that a change waits for, if it waits for one."""
    if refused.behind is None:
        return None
    found = db.execute(
        "SELECT id FROM letter WHERE sink = ? AND commit_lsn = ? AND seq = ? AND target_table = ?",
        (sink, *refused.behind, refused.table),
    ).fetchone()
    return found["id"] if found else None


def _insert(db: sqlite3.Connection, sink: str, refused: Refused) -> None:
    # One that was closed is open again when its row comes again: the target was set back.
    db.execute(
        "INSERT INTO letter (sink, target_table, commit_lsn, seq, op, version, key_columns, keys, waits_for, "
        "code, message, target_column, noted_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (sink, commit_lsn, seq, target_table) DO UPDATE SET status = 'open', closed_at = NULL, "
        "replay = NULL, asked = 0, waits_for = excluded.waits_for, code = excluded.code, "
        "message = excluded.message, target_column = excluded.target_column, noted_at = excluded.noted_at",
        (
            sink, refused.table, *refused.position, refused.op, refused.version,
            json.dumps(refused.key_columns), json.dumps(refused.keys), _behind(db, sink, refused),
            refused.code, refused.message, refused.column, time.time(),
        ),
    )  # fmt: skip


def _close(db: sqlite3.Connection, status: Status, which: str, values: tuple[Any, ...]) -> int:
    closed = db.execute(
        "UPDATE letter SET status = ?, closed_at = ?, asked = 0, overtaken_at = NULL, replay = NULL "  # noqa: S608
        f"WHERE {which} AND status = ?",  # a constant of this module
        (status, time.time(), *values, OPEN),
    )
    return closed.rowcount


def _letter(row: sqlite3.Row) -> Letter:
    return Letter(
        table=row["target_table"],
        position=Position(Lsn(row["commit_lsn"]), row["seq"]),
        op=row["op"],
        version=row["version"],
        key_columns=tuple(json.loads(row["key_columns"])),
        keys=tuple(json.loads(row["keys"])),
        code=row["code"],
        message=row["message"],
        column=row["target_column"],
        id=row["id"],
        sink=row["sink"],
        noted_at=row["noted_at"],
        status=row["status"],
        closed_at=row["closed_at"],
        waits_for=row["waits_for"],
        asked=bool(row["asked"]),
    )
