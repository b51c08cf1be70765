"""
What a changed object needs of the target, where the target does not have all tables of the source.

What needs a table that is not replicated is left out with a warning, as at the first copy: a view over it, a
key to it. What is there already and needs such a table from now on can't be left as it was: that stops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from pgsluice.errors import ChangeRefusedError
from pgsluice.schema.compare import name_of
from pgsluice.schema.described_names import for_people
from pgsluice.sinks.postgres.alter.words import address

if TYPE_CHECKING:
    from collections.abc import Collection

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry

logger = structlog.get_logger(__name__)

_HERE: Final = {
    "view": "SELECT pg_catalog.to_regclass(%(address)s) IS NOT NULL",
    "materialized view": "SELECT pg_catalog.to_regclass(%(address)s) IS NOT NULL",
    "sequence": "SELECT pg_catalog.to_regclass(%(address)s) IS NOT NULL",
    "statistics": "SELECT EXISTS (SELECT FROM pg_catalog.pg_statistic_ext s"
    " JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace"
    " WHERE n.nspname = %(schema)s AND s.stxname = %(name)s)",
    "rule": "SELECT EXISTS (SELECT FROM pg_catalog.pg_rewrite"
    " WHERE ev_class = pg_catalog.to_regclass(%(table)s) AND rulename = %(name)s)",
    "policy": "SELECT EXISTS (SELECT FROM pg_catalog.pg_policy"
    " WHERE polrelid = pg_catalog.to_regclass(%(table)s) AND polname = %(name)s)",
    "function": "SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = %(schema)s AND p.proname = %(name)s)",
}
"""How the target is asked for an object; a function by its name alone, whatever it takes."""


def has_relation(conn: Connection, relation: str) -> bool:
    """Whether the target has a table or view of that name, which is SQL."""
    row = conn.execute("SELECT pg_catalog.to_regclass(%s) IS NOT NULL", (relation,)).fetchone()
    return bool(row and row[0])


def possible(conn: Connection, change: ObjectChange, entry: SchemaEntry) -> ObjectChange | None:
    """The change as far as the target can have it; None when it can't."""
    if change.after is None:
        return change
    coming = {address(each.after) for each in entry.changes if each.after and each.after["kind"] == "table"}
    if change.after["kind"] == "table":
        return _without_keys(conn, change, coming)
    kind: str = change.after["kind"]
    if kind == "extension":
        return _with_version(conn, change, entry)
    asked = _HERE.get("function" if kind == "procedure" else kind)
    if asked is None:
        return change
    is_here = change.before is not None and _answer(conn, asked, change.before)
    lacking = _lacking(conn, change.after, coming)
    if not lacking:  # what was left out before may be possible now
        return change if is_here else replace(change, before=None)
    if kind == "sequence" and is_here:
        return replace(change, after={key: each for key, each in change.after.items() if key != "owned_by"})
    if is_here:
        raise _stop(change, lacking, entry)
    tell = logger.warning if change.before is None else logger.info
    tell("left out", kind=kind, name=name_of(change.after), reason=_reason(lacking))
    return None


def _with_version(conn: Connection, change: ObjectChange, entry: SchemaEntry) -> ObjectChange:
    """An extension in the version that the source has, if the target's server has that; else in its own."""
    assert change.after is not None
    name, version = change.after["name"], change.after["version"]
    found = [
        row[0]
        for row in conn.execute(
            "SELECT version::text FROM pg_catalog.pg_available_extension_versions WHERE name = %s", (name,)
        )
    ]
    if not found:
        raise ChangeRefusedError(
            f"the target's server does not have the extension {name}",
            remedy=f"Install {name} on that server and start again; or set schema_exclude: [extension], if "
            "the target needs nothing of it",
            entry=entry.id,
            object=change.oid,
        )
    if version in found:
        return change
    logger.warning("extension in another version", name=name, wanted=version, versions=found)
    after = {key: each for key, each in change.after.items() if key != "version"}
    return replace(change, after=after)


def _lacking(conn: Connection, of: Definition, coming: Collection[str]) -> list[str]:
    needs = list(of.get("needs", ()))
    if "owned_by" in of:
        needs.append(of["owned_by"].rpartition(".")[0])
    return [each for each in needs if each not in coming and not has_relation(conn, each)]


def _without_keys(conn: Connection, change: ObjectChange, coming: Collection[str]) -> ObjectChange:
    """A table without its keys to tables that are not here."""
    assert change.after is not None
    lacking: set[int] = set()
    for rule in change.after.get("constraints", ()):
        if "needs" in rule and rule["needs"] not in coming and not has_relation(conn, rule["needs"]):
            lacking.add(rule["id"])
            name = f"{rule['name']} on {name_of(change.after)}"
            known = {each["id"] for each in (change.before or {}).get("constraints", ())}
            tell = logger.info if rule["id"] in known else logger.warning
            tell("left out", kind="foreign key", name=name, reason=_reason([rule["needs"]]))
    if not lacking:
        return change

    def rest(of: Definition) -> dict[str, Any]:
        return {
            **of,
            "constraints": [each for each in of.get("constraints", ()) if each["id"] not in lacking],
        }

    return replace(change, before=change.before and rest(change.before), after=rest(change.after))


def _answer(conn: Connection, asked: str, of: Definition) -> bool:
    facts = {"address": address(of), "schema": of["schema"], "name": of["name"], "table": of.get("table")}
    row = conn.execute(asked, facts).fetchone()
    return bool(row and row[0])


def _reason(lacking: list[str]) -> str:
    return f"the target does not have {', '.join(map(for_people, lacking))}"


def _stop(change: ObjectChange, lacking: list[str], entry: SchemaEntry) -> ChangeRefusedError:
    of = change.definition
    return ChangeRefusedError(
        f"{of['kind']} {name_of(of)} was changed on the source and can't be in the target any more: "
        f"{_reason(lacking)}",
        remedy=f"Drop the {of['kind']} in the target, or let these tables be replicated too, and start again",
        entry=entry.id,
        object=change.oid,
    )
