"""
Changes of the schema without columns that stay behind, and without what is made with these.

Descriptions have every name in quotes, so a column is found in the text of an index, a rule or a view. One
that is found too often costs an index of the target, with a warning; one that is missed can't be made there,
for the target does not have the column.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from pgsluice.errors import ConfigError
from pgsluice.schema.compare import name_of
from pgsluice.schema.match import TablePattern
from pgsluice.schema.quotes import bare, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.modifiers.columns.choice import ColumnChoices
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry
    from pgsluice.schema.renames import TableName

logger = structlog.get_logger(__name__)

_IDENTIFIER: Final = re.compile(r'"(?:[^"]|"")+"')
_TEXTS: Final = ("create", "query")
_FAMILY: Final = ("parents", "bound", "partitioned_by", "of_type")
FAMILY_REMEDY: Final = "Let all columns of such a table go on, or leave the table out"


def without_columns(entry: SchemaEntry, choices: ColumnChoices) -> SchemaEntry:
    """The entry as far as it goes on; what was judged new in it is known from then on."""
    for change in entry.changes:
        for of in (change.before, change.after):
            if of and of["kind"] == "table":
                _learn(change.oid, of, choices)
        _require_as_added(change, choices)
    changes = (_narrowed(change, choices) for change in entry.changes)
    return replace(entry, changes=tuple(change for change in changes if change is not None))


def _learn(oid: int, of: Definition, choices: ColumnChoices) -> None:
    for columns in (of["columns"], [each for each in of["columns"] if "generated" not in each]):
        numbers = [(each["number"], each["name"]) for each in columns]
        choices.learn(oid, (of["schema"], of["name"]), numbers, at_once=True)


def _require_as_added(change: ObjectChange, choices: ColumnChoices) -> None:
    """Raise for a column that was renamed before it was first seen: by its own name it would stay behind."""
    of = change.after
    if of is None or of["kind"] != "table":
        return
    list_ = choices.list_of(change.oid, (of["schema"], of["name"]))
    if list_ is None:
        return
    was = {each["number"] for each in (change.before or {}).get("columns", ())}
    judged = was | choices.left_out(change.oid)
    for each in of["columns"]:
        if each["number"] not in judged and not list_.takes(each["name"]):
            raise ConfigError(
                f"{name_of(of)} got a column {each['name']}, which the filter leaves out, and which had "
                "another name when it was first seen",
                remedy="Name it under exclude as the source does now, and begin anew, with empty targets and "
                "another state_dir",
            )


def _narrowed(change: ObjectChange, choices: ColumnChoices) -> ObjectChange | None:
    if not change.definition:
        return change
    before, after = (of and _without(change.oid, of, choices) for of in (change.before, change.after))
    if before is None and after is None:
        return None
    if change.after is not None and after is None:
        assert before is not None
        logger.warning("left out", kind=before["kind"], name=name_of(before), reason=_REASON)
        return replace(change, before=before, after=None, dropped=before["kind"], identity=_address(before))
    return replace(change, before=before, after=after)


_REASON: Final = "it is made with a column that the filter leaves out"


def _address(of: Definition) -> str:
    """An object as DROP names it."""
    if of["kind"] in ("trigger", "policy", "rule"):
        return f"{quoted(of['name'])} ON {of['table']}"
    arguments = f"({of['arguments']})" if "arguments" in of else ""
    return f"{quoted(of['schema'])}.{quoted(of['name'])}{arguments}"


def _without(oid: int, of: Definition, choices: ColumnChoices) -> Definition | None:
    """A description without columns that stay behind; None for what is made with them."""
    if of["kind"] == "table":
        return _table_without(oid, of, choices)
    names = {name for table in _tables_of(of) for name in choices.names_left_out(table)}
    if not names:
        return of
    own = {of["name"], *(part for table in _tables_of(of) for part in table)}
    texts = " ".join(str(of[key]) for key in _TEXTS if key in of)
    owned_by = of.get("owned_by", "").rpartition(".")[2]
    return None if names & (_identifiers(texts) - own) or names & _identifiers(owned_by) else of


def _table_without(oid: int, of: Definition, choices: ColumnChoices) -> Definition:
    name = of["schema"], of["name"]
    gone = choices.left_out(oid)
    if choices.list_of(oid, name) is not None:
        require_alone(name_of(of), any(key in of for key in _FAMILY))
    behind = {each["name"] for each in of["columns"] if each["number"] in gone}
    columns = [each for each in of["columns"] if each["number"] not in gone]
    for each in columns:
        if behind & _identifiers(each.get("generated", {}).get("as", "")):
            raise made_from(name_of(of), each["name"])

    def is_made(rule: dict[str, Any]) -> bool:
        names = set(behind)
        if "needs" in rule:
            names |= choices.names_left_out(_table(rule["needs"]))
        return not names & _identifiers(rule["definition"])

    narrowed = {**of, "columns": columns}
    if "constraints" in of:
        narrowed["constraints"] = [rule for rule in of["constraints"] if is_made(rule)]
    return narrowed


def require_alone(table: str, has_family: bool) -> None:
    """Raise for a table whose columns are also those of others."""
    if has_family:
        raise ConfigError(
            f"the filter leaves out columns of {table}, which has them in common with others: it is a "
            "partition or partitioned, inherits, or is of a type",
            remedy=FAMILY_REMEDY,
        )


def made_from(table: str, column: str) -> ConfigError:
    """What is said of a generated column whose source stays behind."""
    return ConfigError(
        f"{table}.{column} is generated from a column that the filter leaves out, and would show it",
        remedy=f"Leave {column} out too",
    )


def _tables_of(of: Definition) -> Iterator[TableName]:
    """The tables that an object is made with."""
    named = [*of.get("needs", ()), *([of["table"]] if "table" in of else ())]
    if "owned_by" in of:
        named.append(of["owned_by"].rpartition(".")[0])
    yield from map(_table, named)


def _table(name: str) -> TableName:
    pattern = TablePattern.parse(name)
    return pattern.schema or "", pattern.table or ""


def _identifiers(text: str) -> set[str]:
    return {bare(found[0]) for found in _IDENTIFIER.finditer(text)}
