"""
Changes of the schema without values of columns that rules change.

A default, a rule, the condition of an index or the query of a view may have such a value in its words. What
the target can do without stays behind then, with a warning; functions that make values, such as ``now()``, do
not. What rows of before have in a new column is not told either: they are copied anew, through the rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from pgsluice.errors import TransformError
from pgsluice.schema.compare import name_of
from pgsluice.schema.literals import TELLING, has_literal, names_in, tells
from pgsluice.schema.match import TablePattern
from pgsluice.schema.quotes import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pgsluice.modifiers.transformer.reach import Reach
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry
    from pgsluice.schema.renames import TableName

logger = structlog.get_logger(__name__)

_TEXTS: Final = ("create", "query")
_WITH_WORDS: Final = ("c", "x")  # kinds of rules that have an expression: CHECK, EXCLUDE
_UNTOLD: Final = ("missing", "comment")
_COMMENTS: Final = ("comment", "index_comment")


class DescribedRules:
    """What of descriptions goes on."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._told: set[str] = set()  # what was named in a warning

    def without_values(self, entry: SchemaEntry) -> SchemaEntry:
        """The entry as far as it goes on."""
        changes = (self._narrowed(change) for change in entry.changes)
        return replace(entry, changes=tuple(change for change in changes if change is not None))

    def filled(self, entry: SchemaEntry) -> set[int]:
        """Tables whose rows of before have a value in a new column that a rule changes."""
        return {
            change.oid
            for change in entry.changes
            if change.before is not None and change.after is not None and self._is_filled(change)
        }

    def _is_filled(self, change: ObjectChange) -> bool:
        before, after = change.before or {}, change.after or {}
        was = {each["number"] for each in before.get("columns", ()) if "number" in each}
        return after["kind"] == "table" and any(
            "missing" in each and each["number"] not in was
            for each in after["columns"]
            if each["number"] in self._changed(change.oid, after)
        )

    def _changed(self, oid: int, of: Definition) -> set[int]:
        """The numbers of a table's columns whose values are changed."""
        numbers = {each["name"]: each["number"] for each in of["columns"]}
        found = self._reach.by_number(oid, (of["schema"], of["name"]), numbers)
        return {number for number, rule in found.items() if rule.changes_values}

    def _narrowed(self, change: ObjectChange) -> ObjectChange | None:
        if not change.definition:
            return change
        before, after = (of and self._without(change.oid, of) for of in (change.before, change.after))
        if before is None and after is None:
            return None
        if change.after is not None and after is None:
            assert before is not None
            gone = {"dropped": before["kind"], "identity": _address(before)}
            return replace(change, before=before, after=None, **gone)
        return replace(change, before=before, after=after)

    def _without(self, oid: int, of: Definition) -> Definition | None:
        if of["kind"] == "table":
            return self._table(oid, of)
        names = {name for table in _tables_of(of) for name in self._reach.called(table)}
        texts = " ".join(str(of[key]) for key in _TEXTS if key in of)
        if not names & names_in(texts):
            return of
        if tells(texts):
            self._tell(of["kind"].upper(), name_of(of))
            return None
        return _uncommented(of)

    def _table(self, oid: int, of: Definition) -> Definition:
        changed = self._changed(oid, of)
        if not changed:
            return of
        names = {each["name"] for each in of["columns"] if each["number"] in changed}
        for each in of["columns"]:
            _require_untelling(of, each, names)
        narrowed = {
            **of,
            "columns": [
                self._column(of, each) if each["number"] in changed else each for each in of["columns"]
            ],
        }
        if "constraints" in of:
            kept = (self._rule(of, each, names) for each in of["constraints"])
            narrowed["constraints"] = [each for each in kept if each is not None]
        return narrowed

    def _column(self, table: Definition, of: Definition) -> Definition:
        untold = set(_UNTOLD)
        if "default" in of and has_literal(of["default"]):
            untold.add("default")
            self._tell("DEFAULT", f"{name_of(table)}.{of['name']}")
        return {key: value for key, value in of.items() if key not in untold}

    def _rule(self, table: Definition, of: Definition, names: Collection[str]) -> Definition | None:
        if of["type"] not in _WITH_WORDS or not names_in(of["definition"]).intersection(names):
            return of
        if tells(of["definition"]):
            self._tell("CHECK CONSTRAINT", f"{name_of(table)} {of['name']}")
            return None
        return _uncommented(of)

    def _tell(self, kind: str, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            logger.warning("left out", kind=kind, name=name, reason=TELLING)


def _require_untelling(table: Definition, column: Definition, names: Collection[str]) -> None:
    made_of = column.get("generated", {}).get("as", "")
    if names_in(made_of).intersection(names) and tells(made_of):
        raise TransformError(
            f"{name_of(table)}.{column['name']} is generated from a column whose values a rule changes, by "
            "an expression that has a value in it, which would show",
            remedy=f"Leave {column['name']} out (columns under modifiers.filter.tables), and begin anew",
        )


def _uncommented(of: Definition) -> Definition:
    """Without comments: nobody knows what is in them."""
    rest: dict[str, Any] = {key: value for key, value in of.items() if key not in _COMMENTS}
    if "columns" in rest:
        rest["columns"] = [
            {key: value for key, value in each.items() if key != "comment"} for each in rest["columns"]
        ]
    return rest


def _address(of: Definition) -> str:
    """An object as DROP names it."""
    if of["kind"] in ("trigger", "policy", "rule"):
        return f"{quoted(of['name'])} ON {of['table']}"
    arguments = f"({of['arguments']})" if "arguments" in of else ""
    return f"{quoted(of['schema'])}.{quoted(of['name'])}{arguments}"


def _tables_of(of: Definition) -> Iterator[TableName]:
    """The tables that an object is made with."""
    for named in (*of.get("needs", ()), *([of["table"]] if "table" in of else ())):
        pattern = TablePattern.parse(named)
        yield pattern.schema or "", pattern.table or ""
