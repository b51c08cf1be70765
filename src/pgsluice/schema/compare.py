"""What is different between two descriptions of an object, in words; one line for each thing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pgsluice.schema.described_names import for_people

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pgsluice.schema.entry import Definition

_NAMED_ALONE: Final = ("schema", "extension", "publication")  # kinds that are in no schema
_TEXTS: Final = {"create": "its definition is another one", "query": "its query is another one"}
_NOT_SHOWN: Final = (  # matched by, or said by others, or different in every database
    *(
        "number",
        "missing",
        "id",
        "type_id",
        "modifier",
        "acl",
        "parent_ids",
        "not_null_name",
        "own_not_null",
        "not_null_no_inherit",  # a server before 18 has no word for it: what heirs have is said of them
        "heirs_differ",
        "type_storage",
        "of_type_id",
        "needs",
        "using",
        "detached",
        "merged",
        "same",
    ),
)
_LONGEST: Final = 200  # of a value in a line


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of a part that only one of the two has."""

    added: str = "added"
    dropped: str = "dropped"
    renamed: bool = True  # whether columns are the same by their numbers, else by their names


def name_of(definition: Definition) -> str:
    """What people call an object."""
    if definition["kind"] in _NAMED_ALONE:
        return str(definition["name"])
    if definition["kind"] in ("trigger", "rule", "policy"):
        return f"{definition['name']} on {for_people(definition['table'])}"
    arguments = f"({for_people(definition['arguments'])})" if "arguments" in definition else ""
    return f"{definition['schema']}.{definition['name']}{arguments}"


def differences(before: Definition, after: Definition, words: Words | None = None) -> list[str]:
    """What an object has become."""
    words = words or Words()
    found = []
    if words.renamed and name_of(before) != name_of(after):
        found.append(f"was {name_of(before)}")
    if "columns" in before or "columns" in after:
        found += _columns(before.get("columns", ()), after.get("columns", ()), words)
    if "constraints" in before or "constraints" in after:
        found += _constraints(before.get("constraints", ()), after.get("constraints", ()), words)
    if "labels" in before or "labels" in after:
        found += _labels(before, after)
    handled = ("kind", "schema", "name", "arguments", "columns", "constraints", "labels")
    return [*found, *_values(before, after, handled)]


def _columns(before: Sequence[Definition], after: Sequence[Definition], words: Words) -> Iterator[str]:
    by = "number" if words.renamed and all("number" in column for column in (*before, *after)) else "name"
    old = {column[by]: column for column in before}
    new = {column[by]: column for column in after}
    for key, column in new.items():
        if key not in old:
            yield f"column {column['name']} {words.added} ({for_people(column['type'])})"
            continue
        if old[key]["name"] != column["name"]:
            yield f"column {old[key]['name']} renamed to {column['name']}"
        for line in _values(old[key], column, ("name",)):
            yield f"column {column['name']}: {line}"
    for key, column in old.items():
        if key not in new:
            yield f"column {column['name']} {words.dropped}"


def _constraints(before: Sequence[Definition], after: Sequence[Definition], words: Words) -> Iterator[str]:
    old = {each["name"]: each for each in before}
    new = {each["name"]: each for each in after}
    for name, each in new.items():
        if name not in old:
            yield f"constraint {name} {words.added}: {for_people(each['definition'])}"
            continue
        for line in _values(old[name], each, ("name", "type")):
            yield f"constraint {name}: {line}"
    for name in old:
        if name not in new:
            yield f"constraint {name} {words.dropped}"


def _labels(before: Definition, after: Definition) -> list[str]:
    old, new = ([each["label"] for each in side.get("labels", ())] for side in (before, after))
    return [] if old == new else [f"labels: {', '.join(old)} -> {', '.join(new)}"]


def _values(before: Mapping[str, Any], after: Mapping[str, Any], but: Sequence[str]) -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        old, new, what = before.get(key), after.get(key), key.replace("_", " ")
        if key in but or key in _NOT_SHOWN or old == new:
            continue
        if key == "not_null" and bool(old) == bool(new):  # whose rule it is differs by the server's version
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from (f"{what} {line}" for line in _values(old, new, ()))
        else:
            yield _TEXTS.get(key) or f"{what}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(for_people(text).split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"
