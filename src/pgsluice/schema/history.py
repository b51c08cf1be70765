"""
The changes of the schema that a log has had, and the versions that they make of each schema.

Kept in ``schema.db`` (:mod:`pgsluice.schema.store`). Versions of a schema are counted 1, 2, 3 … in the order
of the stream. Entries are only added at the end, so a number stays with its entry, whoever reads it again.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.position import Lsn
from pgsluice.errors import LogUnwritableError
from pgsluice.schema.entry import SchemaEntry
from pgsluice.schema.entry_names import ObjectRename, first_unseen, has_seen, renames_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pgsluice.changelog.plan import LogRange

_COLUMNS: Final = ("id", "at", "by_user", "tag", "statement", "search_path", "changes", "problem")

_INSERT: Final = (
    "INSERT INTO schema_entry (lsn, id, at, by_user, tag, statement, search_path, changes, problem)"
    " VALUES (:lsn, :id, :at, :by_user, :tag, :statement, :search_path, :changes, :problem)"
)
_SELECT: Final = (
    "SELECT place, lsn, id, at, by_user, tag, statement, search_path, changes, problem"
    " FROM schema_entry ORDER BY place"
)

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS schema_entry (
    place INTEGER PRIMARY KEY,  -- in the order of the stream
    lsn INTEGER NOT NULL,  -- of the commit
    id INTEGER NOT NULL,  -- the row of the source's schema_log
    at TEXT, by_user TEXT, tag TEXT, statement TEXT, search_path TEXT, problem TEXT,
    changes TEXT NOT NULL  -- JSON, as on the source
);
CREATE INDEX IF NOT EXISTS schema_entry_lsn ON schema_entry (lsn);
CREATE TABLE IF NOT EXISTS schema_version (
    schema TEXT NOT NULL,
    version INTEGER NOT NULL,
    place INTEGER NOT NULL REFERENCES schema_entry,
    PRIMARY KEY (schema, version),
    UNIQUE (schema, place)
);
CREATE TABLE IF NOT EXISTS schema_rename (
    commit_lsn INTEGER NOT NULL, end_lsn INTEGER NOT NULL, seq INTEGER NOT NULL, lsn INTEGER NOT NULL,
    old TEXT NOT NULL, new TEXT NOT NULL,
    PRIMARY KEY (commit_lsn, seq)
);
CREATE TABLE IF NOT EXISTS object_rename (
    place INTEGER PRIMARY KEY,  -- in the order of the stream
    lsn INTEGER NOT NULL,  -- of the commit
    xid INTEGER NOT NULL,
    catalog TEXT NOT NULL, oid INTEGER NOT NULL, kind TEXT NOT NULL,
    old_schema TEXT NOT NULL, old_name TEXT NOT NULL, new_schema TEXT NOT NULL, new_name TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS object_rename_xid ON object_rename (xid);
"""
_RENAME: Final = (
    "INSERT INTO object_rename (lsn, xid, catalog, oid, kind, old_schema, old_name, new_schema, new_name)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """A change of the schema, and where it is."""

    place: int  # its number in the order of the stream
    lsn: Lsn  # of the commit of its transaction
    versions: Mapping[str, int]  # that it made, by schema
    entry: SchemaEntry


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a schema."""

    schema: str
    version: int
    log_id: int  # the row of the source's schema_log that made it


@dataclass(frozen=True, slots=True)
class SchemaRename:
    """
    A schema that got another name, where tables may still be announced under the old one.

    Servers before 16 do so until something else about the table changes, and all do so in transactions that
    had begun before: renaming a schema waits for nobody who writes to its tables.
    """

    commit_lsn: int
    end_lsn: int
    seq: int  # its place in its transaction
    lsn: int  # and in the WAL
    old: str
    new: str

    def is_unknown_to(self, range_: LogRange, announced: int) -> bool:
        """Whether rows of a range come after it, and their table was announced before it, at an LSN."""
        if self.end_lsn == range_.first_end_lsn:
            return range_.opened is not None and range_.opened.seq > self.seq and announced < self.lsn
        return self.end_lsn < range_.first_end_lsn and announced < self.commit_lsn


class SchemaHistory:
    """Entries and versions, in the file of a schema store."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._db.executescript(_TABLES)

    @property
    def last_lsn(self) -> Lsn:
        """The commit of the last entry: all up to it are known. 0 without any."""
        return Lsn(self._db.execute("SELECT coalesce(max(lsn), 0) FROM schema_entry").fetchone()[0])

    def add(self, lsn: Lsn, entries: Iterable[SchemaEntry], renames: Iterable[SchemaRename] = ()) -> None:
        """Keep all entries of the transaction that follows those before; one that is known stays as it is."""
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")  # other loops read the same entries now
                if lsn > self.last_lsn:
                    for entry in entries:
                        self._add(lsn, self.as_called_then(lsn, entry))
                    self._db.executemany(
                        "INSERT INTO schema_rename VALUES (:commit_lsn, :end_lsn, :seq, :lsn, :old, :new)",
                        map(asdict, renames),
                    )
        except sqlite3.OperationalError as exc:
            raise LogUnwritableError(f"the schema store of the log can't be written: {exc}") from exc

    def _add(self, lsn: Lsn, entry: SchemaEntry) -> None:
        added = self._db.execute(_INSERT, {**entry.as_row(), "lsn": int(lsn)})
        for schema in sorted(entry.schemas):
            self._db.execute(
                "INSERT INTO schema_version SELECT ?, coalesce(max(version), 0) + 1, ?"
                " FROM schema_version WHERE schema = ?",
                (schema, added.lastrowid, schema),
            )

        self._db.executemany(
            _RENAME,
            [
                (int(lsn), entry.xid, each.catalog, each.oid, each.kind, *each.old, *each.new)
                for each in renames_of(entry)
                if entry.xid is not None
            ],
        )

    def as_called_then(self, lsn: Lsn, entry: SchemaEntry) -> SchemaEntry:
        """An entry of the transaction that was committed there, with the names of that place."""
        if not entry.seen:
            return entry
        rows = self._db.execute(
            "SELECT xid, catalog, oid, kind, old_schema, old_name, new_schema, new_name FROM object_rename"
            " WHERE xid >= ? AND lsn < ? ORDER BY place",
            (first_unseen(entry.seen), int(lsn)),
        )
        for xid, catalog, oid, kind, *names in rows.fetchall():
            if not has_seen(entry.seen, xid):
                rename = ObjectRename(catalog, oid, kind, (names[0], names[1]), (names[2], names[3]))
                entry = rename.applied_to(entry)
        return entry

    def renames(self) -> list[SchemaRename]:
        """The schemas that were renamed, in the order of the stream."""
        return [
            SchemaRename(*row)
            for row in self._db.execute("SELECT * FROM schema_rename ORDER BY commit_lsn, seq")
        ]

    def entries(self) -> list[PlacedEntry]:
        """All of them, in the order of the stream."""
        versions: dict[int, dict[str, int]] = {}
        for schema, version, place in self._db.execute("SELECT schema, version, place FROM schema_version"):
            versions.setdefault(place, {})[schema] = version
        rows = self._db.execute(_SELECT)
        return [
            PlacedEntry(
                place,
                Lsn(lsn),
                versions.get(place, {}),
                SchemaEntry.of_row(dict(zip(_COLUMNS, row, strict=True))),
            )
            for place, lsn, *row in rows
        ]

    def columns_of(self, relid: int) -> list[dict[str, int]]:
        """The numbers of a table's columns by name, before and after each change that it has had."""
        described = [
            definition
            for (text,) in self._db.execute("SELECT changes FROM schema_entry ORDER BY place")
            for change in json.loads(text)
            if (change["class"], change["id"]) == ("pg_class", relid)
            for definition in (change.get("before"), change.get("after"))
            if definition is not None and "columns" in definition
        ]
        return [{each["name"]: each["number"] for each in of["columns"]} for of in described]

    def passed(self, position: Lsn) -> list[SchemaVersion]:
        """The newest version of each schema that one who stands at a position has passed."""
        rows = self._db.execute(
            "SELECT v.schema, max(v.version), e.id FROM schema_version v JOIN schema_entry e USING (place)"
            " WHERE e.lsn < ? GROUP BY v.schema ORDER BY v.schema",  # a position is the end of a transaction
            (int(position),),
        )
        return [SchemaVersion(*row) for row in rows]
