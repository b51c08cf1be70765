"""Enums, domains, composite types and sequences: what columns are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.schema.quotes import quoted
from pgsluice.sinks.postgres.alter.words import address, column_comments, commented, literal, moved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.schema.entry import Definition


def enum_statements(before: Definition | None, after: Definition) -> Iterator[str]:
    """Labels are never taken away; they are told from each other by their numbers."""
    if before is None:
        labels = ", ".join(literal(each["label"]) for each in after.get("labels", ()))
        yield f"CREATE TYPE {address(after)} AS ENUM ({labels})"
    else:
        yield from moved(before, after)
        altered = f"ALTER TYPE {address(after)}"
        known = {each["id"]: each["label"] for each in before.get("labels", ())}
        previous: str | None = None
        waiting: list[str] = []  # before the first label that was there
        for each in after.get("labels", ()):
            label = each["label"]
            if each["id"] in known:
                if known[each["id"]] != label:
                    yield f"{altered} RENAME VALUE {literal(known[each['id']])} TO {literal(label)}"
                for early in waiting:
                    yield f"{altered} ADD VALUE {literal(early)} BEFORE {literal(label)}"
                waiting = []
            elif previous is not None:
                yield f"{altered} ADD VALUE {literal(label)} AFTER {literal(previous)}"
            elif known:
                waiting.append(label)
                continue
            else:
                yield f"{altered} ADD VALUE {literal(label)}"
            previous = label
    yield from commented(before, after)


def domain_statements(before: Definition | None, after: Definition) -> Iterator[str]:
    """A domain, and the rules of its values."""
    named = address(after)
    if before is None:
        collation = f" COLLATE {after['collation']}" if "collation" in after else ""
        yield f"CREATE DOMAIN {named} AS {after['type']}{collation}"
        before = {**after, "constraints": [], "default": None, "not_null": False, "comment": None}
    else:
        yield from moved(before, after)
    if before.get("default") != after.get("default"):
        yield f"ALTER DOMAIN {named} " + (
            f"SET DEFAULT {after['default']}" if "default" in after else "DROP DEFAULT"
        )
    if bool(before.get("not_null")) != bool(after.get("not_null")):
        yield f"ALTER DOMAIN {named} {'SET' if after.get('not_null') else 'DROP'} NOT NULL"
    old = {each["id"]: each for each in before.get("constraints", ())}
    new = {each["id"]: each for each in after.get("constraints", ())}
    for number, rule in old.items():
        if number not in new:
            yield f"ALTER DOMAIN {named} DROP CONSTRAINT {quoted(rule['name'])}"
    for number, rule in new.items():
        if number not in old:
            yield f"ALTER DOMAIN {named} ADD CONSTRAINT {quoted(rule['name'])} {rule['definition']}"
        elif old[number]["name"] != rule["name"]:
            was = quoted(old[number]["name"])
            yield f"ALTER DOMAIN {named} RENAME CONSTRAINT {was} TO {quoted(rule['name'])}"
        elif old[number]["definition"] == f"{rule['definition']} NOT VALID":
            yield f"ALTER DOMAIN {named} VALIDATE CONSTRAINT {quoted(rule['name'])}"
    for number, rule in new.items():
        said = rule.get("comment")
        if old.get(number, {}).get("comment") != said:
            text = "NULL" if said is None else literal(said)
            yield f"COMMENT ON CONSTRAINT {quoted(rule['name'])} ON DOMAIN {named} IS {text}"
    yield from commented(before, after)


def composite_statements(before: Definition | None, after: Definition) -> Iterator[str]:
    """A type of several attributes."""
    named = address(after)
    if before is None:
        yield f"CREATE TYPE {named} AS ({', '.join(map(_attribute, after['columns']))})"
        yield from column_comments(named, (), after["columns"], "number")
        yield from commented(None, after)
        return
    yield from moved(before, after)
    old = {each["number"]: each for each in before["columns"]}
    new = {each["number"]: each for each in after["columns"]}
    for number, attribute in old.items():
        if number not in new:
            yield f"ALTER TYPE {named} DROP ATTRIBUTE {quoted(attribute['name'])} CASCADE"
    for number, attribute in new.items():
        was, name = old.get(number), quoted(attribute["name"])
        if was is None:
            yield f"ALTER TYPE {named} ADD ATTRIBUTE {_attribute(attribute)} CASCADE"
            continue
        if was["name"] != attribute["name"]:
            yield f"ALTER TYPE {named} RENAME ATTRIBUTE {quoted(was['name'])} TO {name} CASCADE"
        if _typed(was) != _typed(attribute):
            yield f"ALTER TYPE {named} ALTER ATTRIBUTE {name} TYPE {_typed(attribute)} CASCADE"
    yield from column_comments(named, before["columns"], after["columns"], "number")
    yield from commented(before, after)


def _attribute(of: Definition) -> str:
    return f"{quoted(of['name'])} {_typed(of)}"


def _typed(of: Definition) -> str:
    return str(of["type"]) + (f" COLLATE {of['collation']}" if "collation" in of else "")


def sequence_statements(before: Definition | None, after: Definition) -> Iterator[str]:
    """A sequence; where it stands follows the source's by itself."""
    if before is None:
        unlogged = "UNLOGGED " if after.get("unlogged") else ""
        yield f"CREATE {unlogged}SEQUENCE {address(after)} AS {after['type']} {after['options']}"
    else:
        yield from moved(before, after)
        if (before["type"], before["options"]) != (after["type"], after["options"]):
            yield f"ALTER SEQUENCE {address(after)} AS {after['type']} {after['options']}"
    yield from commented(before, after)


def owned_sequence(before: Definition | None, after: Definition) -> Iterator[str]:
    """The column that a sequence belongs to; it is there when all else of the change is."""
    if (before or {}).get("owned_by") != after.get("owned_by"):
        yield f"ALTER SEQUENCE {address(after)} OWNED BY {after.get('owned_by', 'NONE')}"
