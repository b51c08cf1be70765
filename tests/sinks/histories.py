"""Random histories of one table, as PostgreSQL would send them, and the rows that they leave behind."""

# ruff: noqa: D102 - the methods of History are SQL's own words

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from pgsluice.testing.batches import UNCHANGED, Changes, table

if TYPE_CHECKING:
    from pgsluice.schema.table import TableVersion

COLUMNS = {"a": "int4", "b": "text", "body": "text", "n": "int4"}

TABLES = {
    "primary key": table("s.t", COLUMNS, key=["a"]),
    "composite key": table("s.t", COLUMNS, key=["a", "b"]),
    "index": table("s.t", COLUMNS, key=["b"], identity="i", primary_key=["a"]),
    "key with a large value": table("s.t", COLUMNS, key=["body"]),
    "full with key": table("s.t", COLUMNS, identity="f", primary_key=["a"]),
    "full without key": table("s.t", COLUMNS, identity="f", primary_key=[]),
}

KEYS = st.sampled_from(["1", "2", "3"])
TEXTS = st.sampled_from(["x", "x,y", "x|y", ""])
VALUES = st.one_of(st.none(), TEXTS)


@dataclass
class History:
    """A source table that writes down its own changes."""

    version: TableVersion
    rows: list[list[str | None]] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)

    def key_of(self, row: list[str | None]) -> tuple[str | None, ...]:
        return tuple(row[i] for i in self.version.merge_key)

    def is_free(self, row: list[str | None], but: int | None = None) -> bool:
        """Whether the row's key may be written without a violation."""
        others = [self.key_of(other) for i, other in enumerate(self.rows) if i != but]
        return not self.version.merge_key or self.key_of(row) not in others

    def old_tuple(self, row: list[str | None]) -> list[str | None]:
        """What the stream sends of a row that is gone."""
        if self.version.identity == "f":
            return row
        return [
            value if column.in_identity else None
            for value, column in zip(row, self.version.columns, strict=True)
        ]

    def insert(self, row: list[str | None]) -> None:
        if self.is_free(row):
            self.rows.append(row)
            self.changes.insert(self.version, *row)

    def snapshot(self, row: list[str | None]) -> None:
        if self.version.merge_key:
            self.rows = [other for other in self.rows if self.key_of(other) != self.key_of(row)]
        self.rows.append(row)
        self.changes.snapshot(self.version, *row)

    def update(self, place: int, row: list[str | None], keep_body: bool) -> None:
        before = self.rows[place]
        if keep_body:
            row = [*row[:2], before[2], row[3]]
        if not self.is_free(row, but=place):
            return
        sends_old = (
            self.version.identity == "f"
            or self.key_of(row) != self.key_of(before)
            or (keep_body and 2 in self.version.merge_key)  # a key that is TOAST itself is always sent
        )
        self.rows[place] = row
        sent = [*row[:2], UNCHANGED if keep_body else row[2], row[3]]
        self.changes.update(self.version, *sent, old=self.old_tuple(before) if sends_old else None)

    def delete(self, place: int) -> None:
        self.changes.delete(self.version, *self.old_tuple(self.rows.pop(place)))

    def truncate(self) -> None:
        self.rows.clear()
        self.changes.truncate(self.version)


@st.composite
def rows(draw: st.DrawFn) -> list[str | None]:
    """A row; what may be in a key is not NULL."""
    return [draw(KEYS), draw(TEXTS), draw(TEXTS), draw(VALUES)]


@st.composite
def histories(draw: st.DrawFn, version: TableVersion) -> tuple[list[list[str | None]], History]:
    """The rows before the history, and the history."""
    history = History(version)
    for row in draw(st.lists(rows(), max_size=4)):
        history.insert(row)
    before = [list(row) for row in history.rows]
    history.changes = Changes()
    for _ in range(draw(st.integers(1, 12))):
        action = draw(st.sampled_from("IIUUUUUDDST"))
        if action in "UD" and not history.rows:
            action = "I"
        place = draw(st.integers(0, len(history.rows) - 1)) if action in "UD" else 0
        if action == "I":
            history.insert(draw(rows()))
        elif action == "S":
            history.snapshot(draw(rows()))
        elif action == "U":
            history.update(place, draw(rows()), draw(st.booleans()))
        elif action == "D":
            history.delete(place)
        else:
            history.truncate()
    return before, history
