"""
Rights on an object, from what the source's catalog says of them before and after.

An item of such a list is ``grantee=letters/grantor``; a star after a letter is the right to grant it on, and
no grantee means everybody. What the owner has is left out: the target's object has an owner of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pgsluice.schema.quotes import bare, quoted
from pgsluice.sinks.postgres.alter.words import address, kind_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pgsluice.schema.entry import Definition

_ITEM: Final = re.compile(r'("(?:[^"]|"")*"|[^="]*)=([^/]*)/("(?:[^"]|"")*"|.*)')
_LETTER: Final = re.compile(r"(\w)(\*?)")
_RIGHTS: Final = {
    "r": "SELECT",
    "a": "INSERT",
    "w": "UPDATE",
    "d": "DELETE",
    "D": "TRUNCATE",
    "x": "REFERENCES",
    "t": "TRIGGER",
    "m": "MAINTAIN",
    "X": "EXECUTE",
    "U": "USAGE",
    "C": "CREATE",
}
_RELATIONS: Final = ("table", "view", "materialized view")
_ROUTINES: Final = ("function", "procedure")
_TYPES: Final = ("enum", "composite", "range", "domain")
_KINDS: Final = (*_RELATIONS, *_ROUTINES, *_TYPES, "sequence", "schema")
_EVERYBODY: Final = ""

Rights = dict[tuple[str, str], bool]
"""By grantee and right: whether it may be granted on."""


def grant_statements(before: Definition | None, after: Definition) -> Iterator[str]:
    """Bring the rights on an object up to date."""
    if after["kind"] not in _KINDS:
        return
    old = _rights({"kind": after["kind"]} if before is None else before)
    on = f"{'TABLE' if after['kind'] in _RELATIONS else kind_word(after)} {address(after)}"
    yield from _changed_rights(old, _rights(after), on)
    if after["kind"] in _RELATIONS:
        yield from _column_statements(before, after, on)


def _column_statements(before: Definition | None, after: Definition, on: str) -> Iterator[str]:
    """Rights on single columns. What is taken of the whole is taken of its columns: these come after."""
    old = {} if before is None else _by_number(before)
    taken = set() if before is None else _rights(before).keys() - _rights(after).keys()
    for number, column in _by_number(after).items():
        was = {key: may_grant for key, may_grant in _listed(old.get(number, {})).items() if key not in taken}
        yield from _changed_rights(was, _listed(column), on, f" ({quoted(column['name'])})")


def _by_number(of: Definition) -> dict[int, Definition]:
    """Columns by what stays the same when they are renamed: those of a view have places only."""
    return {column.get("number", place): column for place, column in enumerate(of["columns"])}


def _changed_rights(old: Rights, new: Rights, on: str, column: str = "") -> Iterator[str]:
    for (grantee, right), may_grant in new.items():
        if old.get((grantee, right)) != may_grant:
            option = " WITH GRANT OPTION" if may_grant else ""
            if old.get((grantee, right)):
                yield f"REVOKE GRANT OPTION FOR {right}{column} ON {on} FROM {_role(grantee)} CASCADE"
            yield f"GRANT {right}{column} ON {on} TO {_role(grantee)}{option}"
    for grantee, right in old.keys() - new.keys():
        yield f"REVOKE {right}{column} ON {on} FROM {_role(grantee)} CASCADE"


def _rights(of: Mapping[str, object]) -> Rights:
    if isinstance(of.get("acl"), list):
        return _listed(of)
    if of["kind"] in _ROUTINES:  # what the server gives everybody by itself
        return {(_EVERYBODY, "EXECUTE"): False}
    return {(_EVERYBODY, "USAGE"): False} if of["kind"] in _TYPES else {}


def _listed(of: Mapping[str, object]) -> Rights:
    items = of.get("acl")
    found: Rights = {}
    if not isinstance(items, list):
        return found
    for item in items:
        match = _ITEM.fullmatch(str(item))
        if match is None or match[1] == match[3]:
            continue  # the owner's own
        for letter, star in _LETTER.findall(match[2]):
            if letter in _RIGHTS:
                found[bare(match[1]), _RIGHTS[letter]] = bool(star)
    return found


def _role(name: str) -> str:
    return "PUBLIC" if name == _EVERYBODY else quoted(name)
