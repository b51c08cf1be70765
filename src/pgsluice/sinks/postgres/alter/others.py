"""Objects that are made anew when they change, and which statements serve for which kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pgsluice.schema.quotes import quoted
from pgsluice.sinks.postgres.alter.grants import grant_statements
from pgsluice.sinks.postgres.alter.tables import clustered_keys, table_statements
from pgsluice.sinks.postgres.alter.types import (
    composite_statements,
    domain_statements,
    enum_statements,
    owned_sequence,
    sequence_statements,
)
from pgsluice.sinks.postgres.alter.words import (
    address,
    column_comments,
    column_settings,
    commented,
    kind_word,
    literal,
    moved,
    option_changes,
    options_clause,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pgsluice.schema.entry import Definition, ObjectChange


_ONE_BY_ONE: Final = ("trigger", "policy", "rule")
_OF_COLUMNS: Final = (*_ONE_BY_ONE, "statistics", "view", "materialized view")
"""What keeps a column from being dropped."""
_DROP_ORDER: Final = (
    *(
        *_OF_COLUMNS,
        "publication",
        "table",
        "index",
        "sequence",
    ),  # an index that was made one with a parent's goes with its table
    *("aggregate", "procedure", "function", "composite", "domain", "range", "enum", "base type", "extension"),
    *("foreign table", "schema"),
)
"""What may need what comes after it."""


def statements_for(change: ObjectChange, *, grants: bool = False) -> list[str]:
    """What to run in the target, in order; ``grants``: also for rights on it."""
    if change.after is None:  # it is no longer an object of its own: made one with another
        return (
            []
            if change.part_of is None or change.before is None
            else _attached(change.before, change.part_of)
        )
    statements = list(_KINDS[change.after["kind"]](change.before, change.after))
    if grants:
        statements += grant_statements(change.before, change.after)
    if change.refreshed:
        filled = "" if change.after.get("filled") else " WITH NO DATA"
        statements.append(f"REFRESH MATERIALIZED VIEW {address(change.after)}{filled}")
    return statements


def last_statements_for(change: ObjectChange) -> list[str]:
    """What to run when all changes of a command are made."""
    if change.after is None or change.after["kind"] not in _LAST:
        return []
    return list(_LAST[change.after["kind"]](change.before, change.after))


class Drop(NamedTuple):
    """Objects of one kind that go together."""

    kind: str
    names: Sequence[str]  # as SQL

    @property
    def statement(self) -> str:
        """What drops them."""
        return f"DROP {self.kind} IF EXISTS {', '.join(self.names)}"

    def one_by_one(self) -> list[Drop]:
        """The same for each."""
        return [Drop(self.kind, [name]) for name in self.names]


def drops(changes: Iterable[ObjectChange], *, early: bool) -> list[Drop]:
    """
    What has to go: of one kind together where possible, as they may need each other.

    ``early`` is what has to go before tables are changed; the rest goes after that.
    """
    gone = [(change.before, str(change.identity)) for change in changes if change.dropped and change.before]
    found = []
    for kind in (kind for kind in _DROP_ORDER if (kind in _OF_COLUMNS) == early):
        # The source names first what it was asked to drop, and then what had to go with it.
        named = [identity for of, identity in reversed(gone) if of["kind"] == kind]
        together = [named] if named and kind not in _ONE_BY_ONE else [[identity] for identity in named]
        word = kind_word({"kind": kind})
        found += [Drop(word, some) for some in together]
    return found


def _attached(part: Definition, whole: str) -> list[str]:
    """An index that is a part of a parent's from now on; nothing happens where it is one already."""
    return [f"ALTER INDEX {whole} ATTACH PARTITION {address(part)}"]


def _schema(before: Definition | None, after: Definition) -> Iterator[str]:
    if before is None:
        yield f"CREATE SCHEMA IF NOT EXISTS {address(after)}"
    else:
        yield from moved(before, after)
    yield from commented(before, after)


def _extension(before: Definition | None, after: Definition) -> Iterator[str]:
    if before is None:
        version = f" VERSION {literal(after['version'])}" if "version" in after else ""
        where = f"WITH SCHEMA {quoted(after['schema'])}{version}"
        yield f"CREATE EXTENSION IF NOT EXISTS {address(after)} {where}"
        return  # its comment is the extension's own
    if before["schema"] != after["schema"]:
        yield f"ALTER EXTENSION {address(after)} SET SCHEMA {quoted(after['schema'])}"
    if before["version"] != after.get("version", before["version"]):
        yield f"ALTER EXTENSION {address(after)} UPDATE TO {literal(after['version'])}"
    yield from commented(before, after)


def _view(before: Definition | None, after: Definition) -> Iterator[str]:
    made = f"VIEW {address(after)}{options_clause(after.get('options'))} AS {after['query']}"
    if before is None:
        yield f"CREATE {made}"
    else:
        yield from moved(before, after)
        yield from _changed_view(before, after, made)
    for number, column in enumerate(after["columns"]):
        was = before["columns"][number] if before and number < len(before["columns"]) else {}
        name = quoted(column["name"])
        if was.get("default") != column.get("default"):
            yield f"ALTER VIEW {address(after)} ALTER COLUMN {name} " + (
                f"SET DEFAULT {column['default']}" if "default" in column else "DROP DEFAULT"
            )
        if was.get("comment") != column.get("comment"):
            said = literal(column["comment"]) if "comment" in column else "NULL"
            yield f"COMMENT ON COLUMN {address(after)}.{name} IS {said}"
    yield from commented(before, after)


def _changed_view(before: Definition, after: Definition, made: str) -> Iterator[str]:
    if (before["query"], before.get("options")) == (after["query"], after.get("options")):
        return
    old, new = before["columns"], after["columns"]
    if [column["type"] for column in old] != [column["type"] for column in new[: len(old)]]:
        yield f"DROP VIEW {address(after)}"
        yield f"CREATE {made}"
        return
    for was, now in zip(old, new, strict=False):
        if was["name"] != now["name"]:
            yield f"ALTER VIEW {address(after)} RENAME COLUMN {quoted(was['name'])} TO {quoted(now['name'])}"
    yield f"CREATE OR REPLACE {made}"


def _materialized_view(before: Definition | None, after: Definition) -> Iterator[str]:
    if before is None:
        filled = "" if after.get("filled") else " WITH NO DATA"
        made = f"{address(after)}{options_clause(after.get('options'))} AS {after['query']}{filled}"
        yield f"CREATE MATERIALIZED VIEW {made}"
    else:
        yield from moved(before, after)
        altered = f"ALTER MATERIALIZED VIEW {address(after)}"
        for was, now in zip(before["columns"], after["columns"], strict=False):
            if was["name"] != now["name"]:
                yield f"{altered} RENAME COLUMN {quoted(was['name'])} TO {quoted(now['name'])}"
        yield from option_changes(altered, before.get("options", {}), after.get("options", {}))
    yield from _kept_columns(before, after)
    yield from commented(before, after)


def _kept_columns(before: Definition | None, after: Definition) -> Iterator[str]:
    """Settings of and comments on the columns of a materialized view, which stay in their places."""
    old = [{**column, "place": place} for place, column in enumerate((before or {}).get("columns", ()))]
    new = [{**column, "place": place} for place, column in enumerate(after["columns"])]
    altered = f"ALTER MATERIALIZED VIEW {address(after)}"
    for place, now in enumerate(new):
        was = old[place] if place < len(old) else {}
        yield from column_settings(altered, was, now, other_type=False)
    yield from column_comments(address(after), old, new, "place")


def _index(before: Definition | None, after: Definition) -> Iterator[str]:
    if before is not None:
        yield from moved(before, after)
        if _is_made(before, after):
            yield f"DROP INDEX IF EXISTS {address(after)}"
            before = None
    if before is None:
        yield _whole_index(after)
    elif before.get("clustered") and not after.get("clustered"):
        yield f"ALTER TABLE {after['table']} SET WITHOUT CLUSTER"
    yield from _looked_at(before, after)
    yield from commented(before, after)


def _is_made(before: Definition | None, after: Definition) -> bool:
    """Whether the target's index is a new one."""
    return before is None or _essence(before) != _essence(after)


def _looked_at(before: Definition | None, after: Definition) -> Iterator[str]:
    """For statistics of an index's expressions."""
    old, new = (before or {}).get("statistics", {}), after.get("statistics", {})
    for number in {**old, **new}:
        if old.get(number) != new.get(number):
            yield f"ALTER INDEX {address(after)} ALTER COLUMN {number} SET STATISTICS {new.get(number, -1)}"


def _clustered(before: Definition | None, after: Definition) -> Iterator[str]:
    """When no other index of the table is it any more."""
    if after.get("clustered") and (_is_made(before, after) or not (before or {}).get("clustered")):
        yield f"ALTER TABLE {after['table']} CLUSTER ON {quoted(after['name'])}"


def _essence(of: Definition) -> str:
    """What an index does, without the names that a rename changes: what follows the table's."""
    return str(of["create"]).split(" USING ", 1)[-1] + str(of["create"]).startswith("CREATE UNIQUE").__str__()


def _whole_index(of: Definition) -> str:
    """The index of a partitioned table with those of its partitions, which the source's catalog has apart."""
    if of.get("alone"):
        return str(of["create"])
    return str(of["create"]).replace(f" ON ONLY {of['table']} ", f" ON {of['table']} ", 1)


def _routine(before: Definition | None, after: Definition) -> Iterator[str]:
    if before is not None:
        yield from moved(before, after)
    if before is None or before["create"] != after["create"]:
        yield after["create"]
    yield from commented(before, after)


def _of_table(before: Definition | None, after: Definition) -> Iterator[str]:
    """Triggers, rules and policies."""
    is_made = before is None or before["create"] != after["create"]
    if before is not None:
        yield from moved(before, after)
        if is_made:
            yield f"DROP {kind_word(after)} IF EXISTS {address(after)}"
    if is_made:
        yield after["create"]
    is_off, was_off = (
        (each or {}).get("state") in ("D", "R") for each in (after, None if is_made else before)
    )
    if after["kind"] != "policy" and is_off != was_off:
        # What fires for replicated rows has done its work on the source: ALWAYS is plain, REPLICA is off.
        verb = "DISABLE" if is_off else "ENABLE"
        yield f"ALTER TABLE {after['table']} {verb} {kind_word(after)} {quoted(after['name'])}"
    yield from commented(before, after)


def _statistics(before: Definition | None, after: Definition) -> Iterator[str]:
    if before is None:
        yield after["create"]
    else:
        yield from moved(before, after)
    if (before or {}).get("target") != after.get("target"):
        yield f"ALTER STATISTICS {address(after)} SET STATISTICS {after.get('target', -1)}"
    yield from commented(before, after)


def _publication(before: Definition | None, after: Definition) -> Iterator[str]:
    """Made anew: who subscribes to it goes by its name."""
    for name in dict.fromkeys(address(of) for of in (before, after) if of):
        yield f"DROP PUBLICATION IF EXISTS {name}"
    parts = "ALL TABLES" if after.get("all_tables") else ", ".join(after.get("parts", ()))
    made = f"CREATE PUBLICATION {address(after)}" + (f" FOR {parts}" if parts else "")
    yield f"{made} WITH ({after['options']})"
    yield from commented(None, after)


def _range(before: Definition | None, after: Definition) -> Iterator[str]:
    if before is None:
        yield after["create"]
    else:
        yield from moved(before, after)
    yield from commented(before, after)


_LAST: Final[Mapping[str, Callable[[Definition | None, Definition], Iterator[str]]]] = {
    "sequence": owned_sequence,
    "table": clustered_keys,
    "index": _clustered,
}
_KINDS: Final[Mapping[str, Callable[[Definition | None, Definition], Iterator[str]]]] = {
    "schema": _schema,
    "extension": _extension,
    "table": table_statements,
    "sequence": sequence_statements,
    "view": _view,
    "materialized view": _materialized_view,
    "index": _index,
    "enum": enum_statements,
    "domain": domain_statements,
    "composite": composite_statements,
    "range": _range,
    "function": _routine,
    "procedure": _routine,
    "aggregate": _routine,
    "trigger": _of_table,
    "rule": _of_table,
    "policy": _of_table,
    "statistics": _statistics,
    "publication": _publication,
}
