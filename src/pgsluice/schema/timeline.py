"""
How objects were at a place in the order of changes, from entries that say before and after.

A place is a number: so many entries are done there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pgsluice.schema.described_names import DescribedNames, with_columns_renamed
from pgsluice.schema.match import TablePattern
from pgsluice.schema.renames import Renames

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgsluice.schema.describe import ObjectKey
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry
    from pgsluice.schema.renames import TableName


_COLUMNS: Final = " USING "  # after that, the definition of an index names columns


class ObjectDiff(NamedTuple):
    """An object at two places; None where it was not there."""

    before: Definition | None
    after: Definition | None


class _Found(NamedTuple):
    definition: Definition
    since: int  # the place at which it was described: the names in it are those of then


class Timeline:
    """
    Objects over time.

    Args:
        entries: what was changed, in order.
        known: all objects after that.
    """

    def __init__(self, entries: Sequence[SchemaEntry], known: Mapping[ObjectKey, Definition]) -> None:
        self.end = len(entries)
        self._known = known
        self._changes: dict[ObjectKey, list[tuple[int, ObjectChange]]] = {}
        self._tables: dict[int, dict[TableName, ObjectKey]] = {}  # by place, once asked for
        for place, entry in enumerate(entries):
            for change in entry.changes:
                if not change.rewritten:
                    self._changes.setdefault((change.catalog, change.oid), []).append((place, change))

    def tables(self, place: int) -> dict[TableName, ObjectKey]:
        """The tables that there are at a place, by schema and name."""
        if place not in self._tables:
            self._tables[place] = {
                (found.definition["schema"], found.definition["name"]): key
                for key, found in self._all(place, "table").items()
            }
        return self._tables[place]

    def definition(self, key: ObjectKey, place: int) -> Definition | None:
        """An object at a place."""
        found = self._at(key, place)
        return None if found is None else self._as_then(found, place)

    def indexes(self, table: ObjectKey, place: int) -> list[Definition]:
        """The indexes of a table at a place, but for those that are constraints."""
        found = []
        for each in self._all(place, "index").values():
            if self.tables(each.since).get(_name(each.definition["table"])) == table:
                index = self._as_then(each, place)
                head, using, columns = str(index["create"]).partition(_COLUMNS)
                renamed = with_columns_renamed(columns, self._columns_renamed(table, each.since, place))
                found.append({**index, "create": f"{head}{using}{renamed}"})
        return sorted(found, key=lambda index: str(index["name"]))

    def between(self, first: int, last: int) -> list[ObjectDiff]:
        """The objects that are not the same at two places."""
        found = [
            ObjectDiff(inside[0].before, inside[-1].after)
            for changes in self._changes.values()
            if (inside := [change for place, change in changes if first <= place < last])
        ]
        return [diff for diff in found if diff.before != diff.after]

    def _as_then(self, found: _Found, place: int) -> Definition:
        """
        A description with the names that tables have at a place.

        When a table is renamed, others that name it are described anew, and that is no entry of their own.
        """
        then = {key: name for name, key in self.tables(place).items()}
        moved = {
            name: then[key] for name, key in self.tables(found.since).items() if then.get(key, name) != name
        }
        return DescribedNames(Renames({}, moved), {}).with_texts_renamed(found.definition)

    def _columns_renamed(self, table: ObjectKey, since: int, place: int) -> dict[str, str]:
        """By the names that columns have at one place: those of another."""
        old, new = (self._at(table, each) for each in (since, place))
        if old is None or new is None:
            return {}
        names = {column["number"]: column["name"] for column in new.definition["columns"]}
        return {
            column["name"]: names[column["number"]]
            for column in old.definition["columns"]
            if names.get(column["number"], column["name"]) != column["name"]
        }

    def _all(self, place: int, kind: str) -> dict[ObjectKey, _Found]:
        found = {key: self._at(key, place) for key in {**self._changes, **self._known}}
        return {
            key: each
            for key, each in found.items()
            if each is not None and each.definition.get("kind") == kind
        }

    def _at(self, key: ObjectKey, place: int) -> _Found | None:
        changes = self._changes.get(key, [])
        done = [(at, change) for at, change in changes if at < place]
        if place == self.end or not changes:
            return _found(self._known.get(key), self.end)
        if done:
            return _found(done[-1][1].after, done[-1][0] + 1)
        return _found(changes[0][1].before, changes[0][0])


def _found(definition: Definition | None, since: int) -> _Found | None:
    return None if definition is None else _Found(definition, since)


def _name(quoted: str) -> TableName:
    pattern = TablePattern.parse(quoted)
    return pattern.schema or "", pattern.table or ""
