"""
The source's schema at a position of a pipeline's stream, and what became of it between two.

Positions are known for what the pipeline has read: these entries are in its schema store. How all objects are
now, and what was changed but not read yet, the source says.
"""

from __future__ import annotations

import difflib
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgsluice.changelog.position import Lsn
from pgsluice.errors import ConfigError
from pgsluice.schema.compare import differences, name_of
from pgsluice.schema.match import TablePattern
from pgsluice.schema.store import SchemaStore
from pgsluice.schema.timeline import Timeline
from pgsluice.source.schema_log import read_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.schema.entry import Definition
    from pgsluice.schema.history import PlacedEntry
    from pgsluice.schema.timeline import ObjectDiff


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table at a position."""

    definition: Definition
    indexes: list[Definition]
    oid: int

    @property
    def identified(self) -> Definition:
        """The definition with the ids of the table and its columns, which survive renames."""
        columns = [{"id": f"{self.oid}-{each['number']}", **each} for each in self.definition["columns"]]
        return {"id": str(self.oid), **self.definition, "columns": columns}


def read_history(log: Path) -> list[PlacedEntry]:
    """The changes that a pipeline has read, in order; none without its files."""
    path = log / "schema.db"
    if not path.exists():
        return []
    with closing(SchemaStore(path)) as store:
        return store.history.entries()


def table_at(url: str, pipeline: str, log: Path, table: str, position: Lsn | None) -> TableAt:
    """A table, by the name that it has at a position; None: as it is now."""
    read = read_history(log)
    schema = read_schema(url, pipeline, [each.entry.id for each in read])
    timeline = Timeline([*(each.entry for each in read), *schema.unread], schema.known)
    place = timeline.end if position is None else sum(each.lsn <= position for each in read)
    name = TablePattern.parse(table)
    key = timeline.tables(place).get((name.schema or "", name.table or ""))
    definition = None if key is None else timeline.definition(key, place)
    if key is None or definition is None:
        when = "now" if position is None else f"at {position}"
        raise ConfigError(f"there is no table {name} {when}", remedy=_nearest(name, timeline, place))
    return TableAt(definition, timeline.indexes(key, place), key[1])


def _nearest(name: TablePattern, timeline: Timeline, place: int) -> str:
    known = sorted(str(TablePattern(*table)) for table in timeline.tables(place))
    nearest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.0)
    return f"The nearest is {nearest[0]}" if nearest else "There are no tables"


def changes_between(log: Path, first: str, last: str, schema: str | None) -> list[ObjectDiff]:
    """
    What became of objects between two places; of those of one schema, or of all.

    A place is a position (LSN), the id of an entry, or with a schema the number of one of its versions.
    """
    read = read_history(log)
    if not read:
        raise ConfigError(
            f"the pipeline of {log} has read no changes of the schema",
            remedy="Start a run with this state directory first; pgsluice schema log lists what there is",
        )
    start, end = (_place(each, read, schema) for each in (first, last))
    timeline = Timeline([each.entry for each in read], {})
    found = timeline.between(*sorted((start, end)))
    if start > end:
        found = [type(each)(each.after, each.before) for each in found]
    return [each for each in found if schema is None or schema in _schemas(each)]


def _schemas(diff: ObjectDiff) -> set[str]:
    return {each["schema"] for each in diff if each is not None}


def _place(text: str, read: list[PlacedEntry], schema: str | None) -> int:
    """How many entries are done there."""
    if "/" in text:
        position = Lsn.parse(text)
        return sum(each.lsn <= position for each in read)
    if not text.isdecimal():
        raise ConfigError(
            f"{text!r} is no place in the order of changes",
            remedy="Give an LSN like 0/16B3748, the id of a change (pgsluice schema log), or with --schema a "
            "version",
        )
    number = int(text)
    if schema is not None and number == 0:
        return 0
    for place, each in reversed([*enumerate(read, start=1)]):
        if number == (each.entry.id if schema is None else each.versions.get(schema)):
            return place
    what = f"change {number}" if schema is None else f"version {number} of schema {schema}"
    raise ConfigError(
        f"the pipeline has read no {what}", remedy="pgsluice schema log lists what it has, with its position"
    )


def words_of(diff: ObjectDiff) -> tuple[str, str, list[str]]:
    """The kind and the name of an object, and what became of it."""
    named = diff.after or diff.before or {}
    if diff.before is None or diff.after is None:
        return named["kind"], name_of(named), ["new" if diff.before is None else "dropped"]
    return named["kind"], name_of(named), differences(diff.before, diff.after)
