"""Names and small statements that every kind of object has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.schema.quotes import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgsluice.schema.entry import Definition

KIND_WORDS: Final = {"enum": "TYPE", "composite": "TYPE", "range": "TYPE"}
_OF_TABLE: Final = ("trigger", "rule", "policy")
_ROUTINES: Final = ("function", "procedure", "aggregate")


def literal(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def kind_word(of: Definition) -> str:
    """What statements call its kind."""
    return KIND_WORDS.get(of["kind"]) or str(of["kind"]).upper()


def address(of: Definition) -> str:
    """An object's name with its schema, as SQL."""
    if of["kind"] in ("schema", "extension", "publication"):
        return quoted(of["name"])
    if of["kind"] in _OF_TABLE:
        return f"{quoted(of['name'])} ON {of['table']}"
    name = f"{quoted(of['schema'])}.{quoted(of['name'])}"
    return f"{name}({of['arguments']})" if of["kind"] in _ROUTINES else name


def moved(before: Definition, after: Definition) -> Iterator[str]:
    """Give it another name or schema. What belongs to a table moves with that."""
    now = dict(before)
    word = kind_word(before)
    in_schema = before["kind"] not in ("schema", *_OF_TABLE, "index")
    if in_schema and before["schema"] != after["schema"]:
        # The new name may be taken in the old schema, and the old name in the new one.
        yield f"ALTER {word} {address(now)} SET SCHEMA {quoted(after['schema'])}"
        now["schema"] = after["schema"]
    if before["kind"] in (*_OF_TABLE, "index"):
        now |= {key: after[key] for key in ("schema", "table") if key in after}
    if before["name"] != after["name"]:
        yield f"ALTER {word} {address(now)} RENAME TO {quoted(after['name'])}"


def commented(before: Definition | None, after: Definition) -> Iterator[str]:
    """Bring its comment up to date."""
    was, now = (before or {}).get("comment"), after.get("comment")
    if was != now:
        said = "NULL" if now is None else literal(now)
        yield f"COMMENT ON {kind_word(after)} {address(after)} IS {said}"


def column_comments(
    table: str, before: Sequence[Definition], after: Sequence[Definition], by: str
) -> Iterator[str]:
    """Bring the comments on columns up to date; ``by`` tells which one was which."""
    old = {column[by]: column.get("comment") for column in before}
    for column in after:
        said = column.get("comment")
        if old.get(column[by]) != said:
            text = "NULL" if said is None else literal(said)
            yield f"COMMENT ON COLUMN {table}.{quoted(column['name'])} IS {text}"


def option_changes(altered: str, old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    """Bring options up to date."""
    gone = [name for name in old if name not in new]
    if gone:
        yield f"{altered} RESET ({', '.join(gone)})"
    changed = [f"{name}={literal(value)}" for name, value in new.items() if old.get(name) != value]
    if changed:
        yield f"{altered} SET ({', '.join(changed)})"


def column_settings(altered: str, was: Definition, now: Definition, *, other_type: bool) -> Iterator[str]:
    """How a column is kept, and looked at for statistics."""
    column = f"{altered} ALTER COLUMN {quoted(now['name'])}"
    kept = {} if other_type else was  # with another type the server begins anew with the ways of that
    if kept.get("storage") != now.get("storage"):
        yield f"{column} SET STORAGE {now.get('storage') or was['type_storage']}"
    if kept.get("compression") != now.get("compression"):
        yield f"{column} SET COMPRESSION {now.get('compression', 'default')}"
    if was.get("statistics") != now.get("statistics"):
        yield f"{column} SET STATISTICS {now.get('statistics', -1)}"
    yield from option_changes(column, was.get("options", {}), now.get("options", {}))


def options_clause(options: dict[str, str] | None) -> str:
    """``WITH (…)``, or nothing."""
    if not options:
        return ""
    return " WITH (" + ", ".join(f"{name}={literal(value)}" for name, value in sorted(options.items())) + ")"
