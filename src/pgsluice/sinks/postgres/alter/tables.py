"""Tables: columns are told from each other by their numbers, constraints by theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgsluice.schema.described_names import with_columns_renamed
from pgsluice.schema.quotes import quoted
from pgsluice.sinks.postgres.alter.types import sequence_statements
from pgsluice.sinks.postgres.alter.words import (
    address,
    column_comments,
    column_settings,
    commented,
    literal,
    moved,
    option_changes,
    options_clause,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgsluice.schema.entry import Definition

_TYPE_OF_COLUMN: Final = ("name", "type", "type_id", "modifier", "collation")


def table_statements(before: Definition | None, after: Definition) -> Iterator[str]:
    """Make a table, or make it what it has become."""
    if before is None:
        yield _created(after)
        for column in after["columns"]:
            if "own_not_null" in column:
                yield f"ALTER TABLE {address(after)} ALTER COLUMN {quoted(column['name'])} SET NOT NULL"
            yield from _counted(column)
        yield from _beside_columns({"columns": []}, after)
    else:
        yield from moved(before, after)
        yield from _parents(before, after)
        yield from _columns(before, after)
        if before.get("of_type_id") != after.get("of_type_id"):
            yield f"ALTER TABLE {address(after)} " + (
                f"OF {after['of_type']}" if "of_type" in after else "NOT OF"
            )
        yield from _beside_columns(before, after)


def _created(of: Definition) -> str:
    unlogged = "UNLOGGED " if of.get("unlogged") else ""
    tail = f" PARTITION BY {of['partitioned_by']}" if "partitioned_by" in of else ""
    tail += options_clause(of.get("options"))
    if "bound" in of:
        return f"CREATE {unlogged}TABLE {address(of)} PARTITION OF {of['parents'][0]} {of['bound']}{tail}"
    if "of_type" in of:
        return f"CREATE {unlogged}TABLE {address(of)} OF {of['of_type']}{_typed_columns(of)}{tail}"
    own = [column for column in of["columns"] if column.get("local", True)]
    inherits = f" INHERITS ({', '.join(of['parents'])})" if "parents" in of else ""
    columns = ", ".join(_column(column) for column in own)
    return f"CREATE {unlogged}TABLE {address(of)} ({columns}){inherits}{tail}"


def _typed_columns(of: Definition) -> str:
    """What the columns of a table have besides those of its type."""
    own = [
        (quoted(each["name"]), f"{_made(each)}{_default(each)}{_not_null(each)}") for each in of["columns"]
    ]
    said = [f"{name} WITH OPTIONS{more}" for name, more in own if more]
    return f" ({', '.join(said)})" if said else ""


def _column(of: Definition) -> str:
    """A column of a new table."""
    return f"{quoted(of['name'])} {_typed(of)}{_made(of)}{_default(of)}{_not_null(of)}"


def _default(of: Definition) -> str:
    return f" DEFAULT {of['default']}" if "default" in of else ""


def _not_null(of: Definition) -> str:
    if not of.get("not_null"):
        return ""
    named = f" CONSTRAINT {quoted(of['not_null_name'])}" if "not_null_name" in of else ""
    return f"{named} NOT NULL" + (" NO INHERIT" if "not_null_no_inherit" in of else "")


def _typed(of: Definition) -> str:
    return str(of["type"]) + (f" COLLATE {of['collation']}" if "collation" in of else "")


def _type(of: Definition) -> tuple[Any, ...]:
    """What tells types apart: they may only be called otherwise."""
    return of["type_id"], of["modifier"], of.get("collation")


def _made(of: Definition) -> str:
    """How the server itself makes the values of a column."""
    if "generated" in of:
        return f" GENERATED ALWAYS AS ({of['generated']['as']})" + (
            " STORED" if of["generated"]["stored"] else " VIRTUAL"
        )
    return _identity(of) if "identity" in of else ""


def _identity(of: Definition) -> str:
    sequence = of["sequence"]
    named = f"{quoted(sequence['schema'])}.{quoted(sequence['name'])}"
    return f" GENERATED {of['identity']} AS IDENTITY (SEQUENCE NAME {named} {sequence['options']})"


def _counted(of: Definition) -> Iterator[str]:
    """CREATE TABLE … LIKE makes an identity column count in bigint, whatever its own type is."""
    sequence = of.get("sequence", {})
    if sequence and sequence["type"] != of["type"]:
        yield f"ALTER SEQUENCE {address(sequence)} AS {sequence['type']} {sequence['options']}"


def _parents(before: Definition, after: Definition) -> Iterator[str]:
    """What a table inherits from, or is a partition of."""
    if not _has_other_parents(before, after) and before.get("bound") == after.get("bound"):
        return
    old, new = (
        dict(zip(of.get("parent_ids", ()), of.get("parents", ()), strict=True)) for of in (before, after)
    )
    named = address(after)
    if "bound" in before:
        yield f"ALTER TABLE {before['parents'][0]} DETACH PARTITION {named}"
    else:
        yield from (f"ALTER TABLE {named} NO INHERIT {old[parent]}" for parent in old if parent not in new)
    if "bound" in after:
        yield f"ALTER TABLE {after['parents'][0]} ATTACH PARTITION {named} {after['bound']}"
    else:
        yield from (f"ALTER TABLE {named} INHERIT {new[parent]}" for parent in new if parent not in old)


def _has_other_parents(before: Definition, after: Definition) -> bool:
    """Parents are told from each other by their numbers: they may only be called otherwise."""
    return bool(before.get("parent_ids") != after.get("parent_ids"))


def _columns(before: Definition, after: Definition) -> Iterator[str]:
    """What became of each column; what is done to a parent's is done to an inherited one by the server."""
    only = f"ALTER TABLE {address(after)}"
    old = {column["number"]: column for column in before["columns"]}
    new = {column["number"]: column for column in after["columns"]}
    if "of_type_id" in before and before["of_type_id"] == after.get("of_type_id"):
        yield from _of_type(after, old, new)
        return
    # Heirs are told of by themselves, and may keep a column; partitions have what their root has.
    drop = only if "partitioned_by" in after else f"ALTER TABLE ONLY {address(after)}"
    for number, column in old.items():
        if number not in new and not ("bound" in after and column.get("inherited")):
            yield f"{drop} DROP COLUMN IF EXISTS {quoted(column['name'])}"
    renamed = [
        (old[number]["name"], column["name"])
        for number, column in new.items()
        if number in old and old[number]["name"] != column["name"] and not column.get("inherited")
    ]
    yield from _renamed(only, renamed)
    for number, column in new.items():
        if number not in old:
            yield from _added(only, column)
        else:
            names = {old[each]["name"]: new[each]["name"] for each in old.keys() & new.keys()}
            yield from _altered(after, old[number], column, names, emptied=bool(before.get("emptied")))


def _of_type(after: Definition, old: dict[int, Definition], new: dict[int, Definition]) -> Iterator[str]:
    """The columns of a table of a type: the server gives them what the type's attributes are given."""
    renamed = {old[number]["name"]: column["name"] for number, column in new.items() if number in old}
    for number, column in new.items():
        if number in old:
            of_type: Definition = {key: column[key] for key in _TYPE_OF_COLUMN if key in column}
            was = old[number] | of_type
            yield from _altered(after, was, column, renamed, emptied=False)


def _renamed(only: str, names: list[tuple[str, str]]) -> Iterator[str]:
    """Rename columns, also to names that others among them have still: by way of names that nobody has."""
    taken = {was for was, _ in names}
    late = []
    for number, (was, now) in enumerate(names):
        between = f"pgsluice renames {number}" if now in taken else now
        if between != now:
            late.append((between, now))
        yield f"{only} RENAME COLUMN {quoted(was)} TO {quoted(between)}"
    for was, now in late:
        yield f"{only} RENAME COLUMN {quoted(was)} TO {quoted(now)}"


def _added(only: str, of: Definition) -> Iterator[str]:
    if of.get("inherited"):
        return
    name = quoted(of["name"])
    not_null, default = _not_null(of), _default(of)
    if "missing" in of:
        # What rows of before have: the value of the moment when the column was added, not the target's own.
        default = f" DEFAULT {literal(of['missing'])}::{of['type']}"
    yield f"{only} ADD COLUMN {name} {_typed(of)}{_made(of)}{default}{not_null}"
    yield from _counted(of)
    if "missing" in of:
        yield f"{only} ALTER COLUMN {name} " + (
            f"SET DEFAULT {of['default']}" if "default" in of else "DROP DEFAULT"
        )


def _altered(
    table: Definition, was: Definition, now: Definition, renamed: dict[str, str], *, emptied: bool
) -> Iterator[str]:
    only, name = f"ALTER TABLE {address(table)}", quoted(now["name"])
    column = f"{only} ALTER COLUMN {name}"
    other_type = _type(was) != _type(now)
    if other_type and not now.get("inherited"):
        if "default" in was:
            yield f"{column} DROP DEFAULT"  # it may be no value of the new type
        value = "NULL" if emptied else name  # without rows it needs no way from type to type
        using = "" if "generated" in was else f" USING {value}::{now['type']}"
        yield f"{column} TYPE {_typed(now)}{using}"
    yield from _regenerated(column, was, now, renamed)
    if was.get("default") != now.get("default") or (other_type and "default" in now):
        # Each heir has its own, and is told of by itself.
        yield f"ALTER TABLE ONLY {address(table)} ALTER COLUMN {name} " + (
            f"SET DEFAULT {now['default']}" if "default" in now else "DROP DEFAULT"
        )
    if was.get("not_null_not_valid") != now.get("not_null_not_valid"):
        yield from _unchecked(only, was, now)
    elif was.get("not_null_no_inherit") != now.get("not_null_no_inherit"):
        yield from _not_passed_on(only, was, now)
    elif "own_not_null" in now and "own_not_null" not in was:
        yield f"{column} SET NOT NULL"
    elif _is_other_rule(was.get("not_null"), now.get("not_null")):
        # Where heirs have another rule, it was done to their parent alone.
        alone = f"ALTER TABLE ONLY {address(table)} ALTER COLUMN {name}" if "heirs_differ" in now else column
        yield f"{alone} {'SET' if now.get('not_null') else 'DROP'} NOT NULL"
    yield from _identified(column, was, now)
    if "sequence" in was and "sequence" in now:  # it has moved with its table
        was_there = {**was["sequence"], "schema": now["sequence"]["schema"]}
        yield from sequence_statements(was_there, now["sequence"])


def _unchecked(only: str, was: Definition, now: Definition) -> Iterator[str]:
    """A column that may not be null from now on, whatever older rows have; or these were looked at since."""
    rule = now.get("not_null_not_valid")
    if rule is not None:
        yield f"{only} ADD CONSTRAINT {quoted(rule)} NOT NULL {quoted(now['name'])} NOT VALID"
    elif now.get("not_null"):
        yield f"{only} VALIDATE CONSTRAINT {quoted(was['not_null_not_valid'])}"
    else:
        yield f"{only} DROP CONSTRAINT {quoted(was['not_null_not_valid'])}"


def _not_passed_on(only: str, was: Definition, now: Definition) -> Iterator[str]:
    """A column that may not be null, which heirs don't inherit; they did before, or do from now on."""
    rule = now.get("not_null_no_inherit")
    if rule is not None and was.get("not_null"):
        yield f"{only} ALTER CONSTRAINT {quoted(rule)} NO INHERIT"
    elif rule is not None:
        yield f"{only} ADD CONSTRAINT {quoted(rule)} NOT NULL {quoted(now['name'])} NO INHERIT"
    elif now.get("not_null"):
        yield f"{only} ALTER CONSTRAINT {quoted(was['not_null_no_inherit'])} INHERIT"
    else:
        yield f"{only} ALTER COLUMN {quoted(now['name'])} DROP NOT NULL"


def _identified(column: str, was: Definition, now: Definition) -> Iterator[str]:
    """What became of an identity; a partition without a sequence of its own has its parent's, from 17 on."""
    before, after = (of.get("identity") if "sequence" in of else None for of in (was, now))
    if before == after:
        return
    if after is None:
        yield f"{column} DROP IDENTITY"
    elif before is None:
        yield f"{column} ADD{_identity(now)}"
        yield from _counted(now)
    else:
        yield f"{column} SET GENERATED {after}"


def _is_other_rule(was: object, now: object) -> bool:
    """Whether a column may be null now, or may not any more; what is its parent's is done to that."""
    return bool(was) != bool(now) and "inherited" not in (was, now)


def _regenerated(column: str, was: Definition, now: Definition, renamed: dict[str, str]) -> Iterator[str]:
    """What a generated column is made from; that changes also with names in it, which the server sees to."""
    if "generated" not in was:
        return
    if "generated" not in now:
        if not now.get("inherited"):  # else it is done to the parent, and to the heirs with it
            yield f"{column} DROP EXPRESSION"
    elif "same" not in now["generated"] and now["generated"]["as"] not in (
        was["generated"]["as"],
        with_columns_renamed(was["generated"]["as"], renamed),  # entries of older triggers don't say
    ):
        yield f"{column} SET EXPRESSION AS ({now['generated']['as']})"


def _beside_columns(before: Definition, after: Definition) -> Iterator[str]:
    """What a table has besides columns."""
    only = f"ALTER TABLE {address(after)}"
    yield from _constraints(only, before, after)
    new_options = after.get("options", {})
    yield from option_changes(
        only, before.get("options", {}) if before.get("name") else new_options, new_options
    )
    if before.get("name") and bool(before.get("unlogged")) != bool(after.get("unlogged")):
        yield f"{only} SET {'UNLOGGED' if after.get('unlogged') else 'LOGGED'}"
    if before.get("identity") != after.get("identity"):
        yield f"{only} REPLICA IDENTITY {after.get('identity', 'DEFAULT')}"
    for key, words in (
        ("row_security", ("ENABLE", "DISABLE")),
        ("force_row_security", ("FORCE", "NO FORCE")),
    ):
        if bool(before.get(key)) != bool(after.get(key)):
            yield f"{only} {words[0] if after.get(key) else words[1]} ROW LEVEL SECURITY"
    yield from _settings(before, after)
    yield from column_comments(address(after), before["columns"], after["columns"], "number")
    yield from commented(before if before.get("name") else None, after)


def _settings(before: Definition, after: Definition) -> Iterator[str]:
    """Settings of columns; those of heirs are their own."""
    old = {column["number"]: column for column in before["columns"]}
    for column in after["columns"]:
        was = old.get(column["number"])
        other_type = was is not None and _type(was) != _type(column)
        yield from column_settings(
            f"ALTER TABLE ONLY {address(after)}", was or {}, column, other_type=other_type
        )


def clustered_keys(before: Definition | None, after: Definition) -> Iterator[str]:
    """The key whose index the table is to be sorted by, when no other index is it any more."""
    named = [_clustered_key(of) for of in (before or {}, after)]
    if named[1] is not None and named[0] != named[1]:
        yield f"ALTER TABLE {address(after)} CLUSTER ON {quoted(named[1])}"


def _clustered_key(of: Definition) -> str | None:
    return next((str(each["name"]) for each in of.get("constraints", ()) if "clustered" in each), None)


def _constraints(only: str, before: Definition, after: Definition) -> Iterator[str]:
    if before.get("name") and _has_other_parents(before, after):
        # What was the parent's is its own now, or the other way round: the server sees to that.
        for rule in after.get("constraints", ()):
            if "detached" in rule:
                yield f"{only} ADD CONSTRAINT {quoted(rule['name'])} {rule['definition']}"
        return
    old = _numbered(before.get("constraints", ()), after.get("constraints", ()))
    new = {each["id"]: each for each in after.get("constraints", ())}
    merged = after.get("merged", {})
    for number, rule in old.items():
        if number not in new and str(number) not in merged:
            yield f"{only} DROP CONSTRAINT IF EXISTS {quoted(rule['name'])}"
        elif merged.get(str(number)):
            key = f"{quoted(after['schema'])}.{quoted(rule['name'])}"
            yield f"ALTER INDEX {merged[str(number)]} ATTACH PARTITION {key}"
    for number, rule in new.items():
        was = old.get(number)
        named = quoted(rule["name"])
        if was is None:
            alone = f"ALTER TABLE ONLY {address(after)}" if "alone" in rule else only
            yield f"{alone} ADD CONSTRAINT {named} {_rule(rule)}"
        else:
            if was["name"] != rule["name"] and "inherited" not in rule:
                yield f"{only} RENAME CONSTRAINT {quoted(was['name'])} TO {named}"
            if was["definition"] != rule["definition"]:
                yield from _changed_constraint(only, was, rule, before, after)
        if (was or {}).get("comment") != rule.get("comment"):
            said = literal(rule["comment"]) if "comment" in rule else "NULL"
            yield f"COMMENT ON CONSTRAINT {named} ON {address(after)} IS {said}"
        yield from _index_of(rule, was or {}, after)


def _index_of(rule: Definition, was: Definition, table: Definition) -> Iterator[str]:
    """What the index of a key has of its own."""
    index = f"{quoted(table['schema'])}.{quoted(rule['name'])}"
    yield from option_changes(f"ALTER INDEX {index}", was.get("options", {}), rule.get("options", {}))
    if was.get("index_comment") != rule.get("index_comment"):
        said = literal(rule["index_comment"]) if "index_comment" in rule else "NULL"
        yield f"COMMENT ON INDEX {index} IS {said}"
    if "clustered" in was and "clustered" not in rule:
        yield f"ALTER TABLE {address(table)} SET WITHOUT CLUSTER"


def _numbered(before: Sequence[Definition], after: Sequence[Definition]) -> dict[int, Definition]:
    """Rules by the numbers that they have now: with another type of a column they get new ones."""
    new = {each["id"] for each in after}
    renumbered: dict[tuple[str, str], int] = {(each["name"], each["type"]): each["id"] for each in after}
    found = {}
    for each in before:
        number: int = each["id"]
        found[number if number in new else renumbered.get((each["name"], each["type"]), number)] = each
    return found


def _rule(of: Definition) -> str:
    """A new rule; from an index that was there before, if it was made so."""
    if "using" not in of:
        return str(of["definition"])
    word, _, rest = str(of["definition"]).partition(" (")
    return f"{word} USING INDEX {quoted(of['using'])}{rest.partition(')')[2]}"


def _changed_constraint(
    only: str, was: Definition, now: Definition, before: Definition, after: Definition
) -> Iterator[str]:
    """A rule that the source has changed in place; its text also changes with names and types in it."""
    named = quoted(now["name"])
    if was["definition"] == f"{now['definition']} NOT VALID":
        yield f"{only} VALIDATE CONSTRAINT {named}"
    elif now["type"] == "f" and _plain(was) == _plain(now):
        deferred = [word for word in ("DEFERRABLE", "INITIALLY DEFERRED") if word in now["definition"]]
        yield f"{only} ALTER CONSTRAINT {named} {' '.join(deferred) or 'NOT DEFERRABLE'}"
    elif _names_and_types(before) == _names_and_types(after):
        yield f"{only} DROP CONSTRAINT {named}"
        yield f"{only} ADD CONSTRAINT {named} {now['definition']}"


def _plain(rule: Definition) -> str:
    return str(rule["definition"]).removesuffix(" INITIALLY DEFERRED").removesuffix(" DEFERRABLE")


def _names_and_types(of: Definition) -> list[Any]:
    return [of["schema"], of["name"], *((column["name"], column["type"]) for column in of["columns"])]
