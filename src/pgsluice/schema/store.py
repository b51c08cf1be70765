"""
The schema store: every version of every table that a log has named, each with a number.

The number is what entries carry as ``relation``. Beside them are the changes of the schema that the log has
had (:mod:`pgsluice.schema.history`). Kept in ``schema.db`` beside the segments, because it belongs to the log
and not to one of its readers; several processes of the driver's host may use it.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from pgsluice.errors import LogFormatError, LogUnwritableError
from pgsluice.schema.history import SchemaHistory
from pgsluice.schema.table import Column, Parent, PgType, TableVersion

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMAT: Final = 1
_BUSY_MILLISECONDS: Final = 10_000

_TABLES = """
CREATE TABLE IF NOT EXISTS table_version (
    id INTEGER PRIMARY KEY,
    fingerprint BLOB NOT NULL UNIQUE,  -- the Relation message: another one is another version
    complete INTEGER NOT NULL,  -- whether the source's catalog was asked, or only the stream
    definition TEXT NOT NULL
)
"""


class SchemaStore:
    """Table versions by number and by fingerprint. Of one thread; open another for another."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found > FORMAT:
            raise LogFormatError(
                f"{path} was written by a newer pgsluice (format {found}, this one knows {FORMAT})",
                remedy="Use that version, or another state directory",
            )
        self._db.execute(_TABLES)
        self._db.execute(f"PRAGMA user_version = {FORMAT}")
        self.history = SchemaHistory(self._db)
        self._known: dict[bytes, TableVersion] = {}

    def register(
        self, fingerprint: bytes, describe: Callable[[], TableVersion], *, complete: bool
    ) -> TableVersion:
        """
        The version with this fingerprint; one that is new is described and gets the next number.

        Args:
            fingerprint: the Relation message.
            describe: makes the version; called only when it is needed.
            complete: whether ``describe`` asks the catalog. A description from the stream alone is replaced
                by the first complete one, under the same number.
        """
        known = self._known.get(fingerprint) or self._find(fingerprint, at_least=complete)
        if known is None:
            known = self._keep(fingerprint, self._numbered(describe()), complete=complete)
            self._known.clear()  # of other versions its columns are former ones now
        if fingerprint not in self._known:
            self._known[fingerprint] = self._with_former(known)
        return self._known[fingerprint]

    def _keep(self, fingerprint: bytes, version: TableVersion, *, complete: bool) -> TableVersion:
        try:
            # Another reader may have been quicker: the first description that is good enough stays.
            self._db.execute(
                "INSERT INTO table_version (fingerprint, complete, definition) VALUES (?, ?, ?) "
                "ON CONFLICT (fingerprint) DO UPDATE SET complete = excluded.complete, "
                "definition = excluded.definition WHERE excluded.complete > table_version.complete",
                (fingerprint, complete, json.dumps(asdict(version))),
            )
        except sqlite3.OperationalError as exc:
            raise LogUnwritableError(f"the schema store of the log can't be written: {exc}") from exc
        kept = self._find(fingerprint, at_least=complete)
        assert kept is not None
        return kept

    def _numbered(self, version: TableVersion) -> TableVersion:
        """
        With the numbers that columns had under their names of that time, where changes of the schema tell.

        The catalog has the names of now. The stream sends columns in the order of their numbers.
        """
        names = [column.name for column in version.columns]
        then = self.history.columns_of(version.relid)
        found = {tuple(shape[name] for name in names) for shape in then if shape.keys() >= {*names}}
        found = {numbers for numbers in found if list(numbers) == sorted(numbers)}
        if len(found) != 1:
            return version
        numbers = dict(zip(found.pop(), names, strict=True))
        now = {name: shape[name] for shape in then for name in version.naming if name in shape}
        return replace(
            version,
            columns=tuple(
                replace(column, number=number)
                for column, number in zip(version.columns, numbers, strict=True)
            ),
            naming=tuple(numbers.get(now.get(name, 0), name) for name in version.naming),
        )

    def _with_former(self, version: TableVersion) -> TableVersion:
        """With what the columns of the table are called in other versions, which a target may still have."""
        others = [known for known in self.versions() if known.relid == version.relid]
        former = {(column.number, column.name) for known in others for column in known.columns}
        now = {(column.number, column.name) for column in version.columns}
        return replace(version, former=tuple(sorted(former - now)))

    def versions(self) -> list[TableVersion]:
        """Every version, oldest first."""
        return [
            _version(*row) for row in self._db.execute("SELECT id, definition FROM table_version ORDER BY id")
        ]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _find(self, fingerprint: bytes, *, at_least: bool) -> TableVersion | None:
        row = self._db.execute(
            "SELECT id, definition FROM table_version WHERE fingerprint = ? AND complete >= ?",
            (fingerprint, at_least),
        ).fetchone()
        return _version(*row) if row else None


def _version(number: int, definition: str) -> TableVersion:
    fields: dict[str, Any] = json.loads(definition)
    columns = tuple(
        Column(c["name"], _type(c["type"]), c["in_identity"], c["number"]) for c in fields.pop("columns")
    )
    naming, _ = tuple(fields.pop("naming")), fields.pop("former")
    parents = tuple(Parent(*each) for each in fields.pop("parents", ()))
    return replace(TableVersion(**fields, columns=columns, naming=naming, parents=parents), id=number)


def _type(fields: dict[str, Any]) -> PgType:
    parts = {name: _type(fields[name]) if fields[name] else None for name in ("element", "base")}
    return PgType(**{**fields, **parts})
