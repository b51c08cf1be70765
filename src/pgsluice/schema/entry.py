"""
Changes of the schema, as the source's event triggers write them.

An entry is a row of ``pgsluice.schema_log``, and stands in the stream among the rows of its transaction. It
says what became of each object: how it was described before, and how after (migration 0002 has the words).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pgsluice.schema.pgtypes import resolve
from pgsluice.schema.table import Column, TableVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgsluice.schema.table import PgType

_SHOWN: Final = 3  # objects in a line

Definition = dict[str, Any]
"""An object, described by the source: its kind, schema and name, and what else its kind has."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """What became of one object."""

    catalog: str  # pg_class, pg_type, …
    oid: int
    before: Definition | None = None
    after: Definition | None = None
    dropped: str | None = None  # the server's word for its kind
    identity: str | None = None  # of what was dropped: its name as SQL
    rewritten: bool = False  # all rows of the table are new ones, which the stream does not have
    refreshed: bool = False  # a materialized view was filled
    part_of: str | None = None  # the index that this one was made a part of: its name as SQL
    anew: bool = False  # the table is copied anew: what rows the target has of it is no matter
    old: TableVersion | None = None  # of a table: as rows had it before, under its name in the target
    new: TableVersion | None = None  # and as they have it from now on

    @property
    def definition(self) -> Definition:
        """The object, as it is or was last."""
        return self.after or self.before or {}

    @property
    def is_attached(self) -> bool:
        """Whether a table that was there has become a partition."""
        if self.before is None or self.after is None:
            return False
        return "bound" in self.after and "bound" not in self.before

    @property
    def reshapes(self) -> bool:
        """Whether rows of a table are others by it, or have to go elsewhere."""
        return self.rewritten or _shape(self.before) != _shape(self.after)

    @property
    def rewords(self) -> bool:
        """Whether values of a type have another text by it: labels of an enum, attributes of a composite."""
        if self.before is None or self.after is None:
            return False
        was, now = (
            {each["id"]: each["label"] for each in of.get("labels", ())} for of in (self.before, self.after)
        )
        relabelled = any(now.get(number, label) != label for number, label in was.items())
        is_composite = self.after["kind"] == "composite"
        return relabelled or (is_composite and _numbers(self.before) != _numbers(self.after))

    @property
    def fills(self) -> bool:
        """Whether columns have values of their own by it that were made from others before."""
        was, now = (
            {
                each["number"]: "generated" in each
                for each in (of or {}).get("columns", ())
                if "number" in each
            }
            for of in (self.before, self.after)
        )
        return any(generated and now.get(number) is False for number, generated in was.items())

    @property
    def renames_schema(self) -> bool:
        """Whether all tables of a schema are elsewhere by it."""
        return self.definition.get("kind") == "schema" and bool(self.before) and self.reshapes

    @property
    def schemas(self) -> set[str]:
        """Where it is and was."""
        return {each["schema"] for each in (self.before, self.after) if each and each["schema"]}


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """What one command changed."""

    id: int
    at: str
    user: str
    tag: str
    statement: str
    search_path: str
    changes: tuple[ObjectChange, ...]
    problem: str | None = None  # why the source could not say what was changed
    xid: int | None = None  # the transaction; unknown of entries that older triggers wrote
    seen: str = ""  # the snapshot that the names in it are by
    may_be_there: bool = False  # whether a target may have it already, from a copy at a later point

    @property
    def schemas(self) -> set[str]:
        """The schemas that have another version by it."""
        return set[str]().union(*(change.schemas for change in self.changes))

    @property
    def objects(self) -> str:
        """What it is about, for people."""
        named = [change.definition for change in self.changes if change.definition]
        names = [f"{of['kind']} {'.'.join(filter(None, (of['schema'], of['name'])))}" for of in named]
        return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")

    @classmethod
    def of_row(cls, row: Mapping[str, str | None]) -> SchemaEntry:
        """From the texts of a row of ``schema_log``, by column."""
        return cls(
            int(row["id"] or 0),
            row["at"] or "",
            row["by_user"] or "",
            row["tag"] or "",
            row["statement"] or "",
            row["search_path"] or "",
            _changes(json.loads(row["changes"] or "[]")),
            row["problem"],
            int(xid) if (xid := row.get("xid")) else None,
            row.get("seen") or "",
        )

    def as_row(self) -> dict[str, str | None]:
        """The same as texts again."""
        return {
            "id": str(self.id),
            "at": self.at,
            "by_user": self.user,
            "tag": self.tag,
            "statement": self.statement,
            "search_path": self.search_path,
            "changes": json.dumps([_as_given(change) for change in self.changes], ensure_ascii=False),
            "problem": self.problem,
        }


def _as_given(change: ObjectChange) -> dict[str, Any]:
    given: dict[str, Any] = {"class": change.catalog, "id": change.oid}
    if change.rewritten:
        return {**given, "rewrite": True}
    given |= {"before": change.before, "after": change.after}
    if change.dropped is not None:
        given |= {"dropped": change.dropped, "identity": change.identity}
    if change.part_of is not None:
        given |= {"part_of": change.part_of}
    return {**given, "refreshed": True} if change.refreshed else given


def _numbers(of: Definition) -> list[int]:
    return [each["number"] for each in of["columns"]]


def _shape(of: Definition | None) -> list[Any]:
    if of is None:
        return []
    columns = [(each["number"], each["name"], each["type"]) for each in of.get("columns", ())]
    return [of["schema"], of["name"], *columns]


def version_of(oid: int, described: Definition, types: Mapping[int, PgType]) -> TableVersion:
    """A table as its rows have it; ``types`` are the user's own, by number."""
    columns = tuple(
        Column(
            each["name"],
            resolve(each["type_id"], each["modifier"], types),
            in_identity=False,
            number=each["number"],
        )
        for each in described["columns"]
        if "generated" not in each  # each side makes these itself
    )
    return TableVersion(0, oid, described["schema"], described["name"], "d", columns)


def _changes(given: Sequence[Mapping[str, Any]]) -> tuple[ObjectChange, ...]:
    return tuple(
        ObjectChange(
            each["class"],
            each["id"],
            each.get("before"),
            each.get("after"),
            each.get("dropped"),
            each.get("identity"),
            "rewrite" in each,
            "refreshed" in each,
            each.get("part_of"),
        )
        for each in given
    )
