"""
Which tables are partitions of which: what is said of a partitioned table holds for its partitions.

The catalog knows it of now, and rows may be older: their partition may have been detached or dropped since.
So a table that was once a partition counts as one from then on; a file of the state directory keeps that.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, TypeVar

from pgsluice.modifiers.kept_file import read_kept, write_kept
from pgsluice.schema.match import TablePattern
from pgsluice.schema.table import Parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pgsluice.schema.entry import SchemaEntry
    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.table_facts import TableFacts

FILE: Final = "partitions.json"
Said = TypeVar("Said")


class Lineage:
    """
    The parents of partitions.

    Args:
        path: where it is kept; None: nowhere.
        writes: whether this process is the one that keeps it; others read.
    """

    def __init__(self, path: Path | None = None, *, writes: bool = True) -> None:
        self._path = path if writes else None
        self._lock = threading.Lock()  # every loop asks
        self._parents = {int(relid): Parent(*of) for relid, of in (read_kept(path) or {}).items()}
        self._is_kept = True

    def know(self, tables: Iterable[TableFacts]) -> None:
        """Learn what the catalog says."""
        for table in tables:
            self._learn(table.relid, table.parents)

    def learn(self, version: TableVersion) -> None:
        """Learn what was known when a version was described, unless there is newer word."""
        if version.relid not in self._parents:
            self._learn(version.relid, version.parents)

    def learn_entry(self, entry: SchemaEntry) -> None:
        """Learn from a change of the schema."""
        for change in entry.changes:
            for of in (change.before, change.after):
                if of and of.get("kind") == "table" and "bound" in of:
                    name = TablePattern.parse(of["parents"][0])
                    parent = Parent(of["parent_ids"][0], name.schema or "", name.table or "")
                    self._learn(change.oid, (parent,))

    def above(self, relid: int) -> Iterator[Parent]:
        """What a table is a partition of, the nearest first."""
        seen = {relid}
        while (parent := self._parents.get(relid)) is not None and parent.relid not in seen:
            yield parent
            relid = parent.relid
            seen.add(relid)

    def keep(self) -> None:
        """Write down what is new; before any row goes on by it."""
        with self._lock:
            if not self._is_kept and self._path is not None:
                write_kept(self._path, self._parents)
            self._is_kept = True

    def _learn(self, relid: int, parents: Iterable[Parent]) -> None:
        with self._lock:
            for parent in parents:
                if self._parents.get(relid) != parent:
                    self._parents[relid] = parent
                    self._is_kept = False
                relid = parent.relid


def said_of(
    relid: int,
    name: TableName,
    by_name: Mapping[TableName, Said],
    by_number: dict[int, Said],
    lineage: Lineage,
) -> Said | None:
    """
    What is said of a table: by its name, by one that it had, or by that of the nearest parent.

    It is kept by number from then on.
    """
    named = by_name.get(name)
    if named is not None:
        by_number.setdefault(relid, named)
    if relid in by_number:
        return by_number[relid]
    for parent in lineage.above(relid):
        found = by_number.get(parent.relid) or by_name.get((parent.schema, parent.name))
        if found is not None:
            by_number[relid] = found
            return found
    return None
