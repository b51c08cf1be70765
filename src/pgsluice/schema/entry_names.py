"""
The names in a change of the schema, where another transaction has renamed something meanwhile.

A change is described when its command ends, and stands in the stream where its transaction is committed. The
server lets others rename a schema, type, function or sequence in between that the change has to do with. A
transaction that was committed before, and that the describing one did not see yet, is such a one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pgsluice.schema.described_names import DescribedNames
from pgsluice.schema.renames import Renames

if TYPE_CHECKING:
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry
    from pgsluice.schema.renames import TableName

_OF_TABLES: Final = ("index", "trigger", "rule", "policy", "statistics")  # their tables are locked for it


@dataclass(frozen=True, slots=True)
class ObjectRename:
    """An object that got another name, or moved to another schema."""

    catalog: str
    oid: int
    kind: str
    old: TableName
    new: TableName

    @property
    def _renames(self) -> Renames:
        if self.kind == "schema":
            return Renames(schemas={self.old[1]: self.new[1]})
        return Renames(tables={self.old: self.new})

    def applied_to(self, entry: SchemaEntry) -> SchemaEntry:
        """The entry with the new name."""
        return replace(entry, changes=tuple(map(self._changed, entry.changes)))

    def _changed(self, change: ObjectChange) -> ObjectChange:
        is_it = (change.catalog, change.oid) == (self.catalog, self.oid)
        names = DescribedNames(self._renames, {})
        return replace(
            change,
            before=self._described(change.before, is_it=is_it) if change.before else None,
            after=self._described(change.after, is_it=is_it) if change.after else None,
            identity=names.identity(str(change.dropped), change.identity) if change.identity else None,
            part_of=self._renames.sql(change.part_of) if change.part_of else None,
        )

    def _described(self, definition: Definition, *, is_it: bool) -> Definition:
        names = DescribedNames(self._renames, {})
        if self.kind == "schema":
            found = names.renamed(definition)
        else:
            found = names.with_texts_renamed(definition)
            if is_it and (found["schema"], found["name"]) == self.old:
                found = {**found, "schema": self.new[0], "name": self.new[1]}
        if "arguments" in found:  # of a function: names of types
            found["arguments"] = self._renames.sql(found["arguments"])
        return found


def renames_of(entry: SchemaEntry) -> list[ObjectRename]:
    """What an entry renames, that others may name without a lock on it."""
    return [
        ObjectRename(change.catalog, change.oid, change.after["kind"], old, new)
        for change in entry.changes
        if change.before and change.after and change.after["kind"] not in _OF_TABLES
        if (old := (change.before["schema"], change.before["name"]))
        != (new := (change.after["schema"], change.after["name"]))
    ]


def first_unseen(seen: str) -> int:
    """The oldest transaction that a snapshot may not have seen."""
    return int(seen.partition(":")[0])


def has_seen(seen: str, xid: int) -> bool:
    """Whether a snapshot has a transaction in it; it is the server's text: ``first:next:running,running``."""
    first, following, running = seen.split(":")
    return xid < int(first) or (xid < int(following) and str(xid) not in running.split(","))
