"""
Rules that go with foreign keys: what points at a changed key must be changed the same way.

A rule follows from column to column, by any number of steps; of a key of several columns, each by its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from pgsluice.modifiers.transformer.book import Followed
from pgsluice.modifiers.transformer.rules import TableRules
from pgsluice.modifiers.transforms.base import longest
from pgsluice.modifiers.transforms.expression import Sql
from pgsluice.modifiers.transforms.fixed import Null
from pgsluice.schema.match import TablePattern
from pgsluice.schema.quotes import bare
from pgsluice.schema.type_names import base_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pgsluice.modifiers.transformer.rules import ColumnRule, References, Transformations
    from pgsluice.schema.entry import Definition
    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table_facts import ColumnFacts, TableFacts

_QUOTED: Final = r'"(?:[^"]|"")+"'
_LIST: Final = rf"{_QUOTED}(?:, {_QUOTED})*"
_KEY: Final = re.compile(
    rf"FOREIGN KEY \((?P<own>{_LIST})\) REFERENCES (?:{_QUOTED}\.)?{_QUOTED}\((?P<other>{_LIST})\)"
)
_NAME: Final = re.compile(_QUOTED)


class Pointer(NamedTuple):
    """A column, and the one that it points at."""

    table: TableName
    column: str
    to: TableName
    referred: str

    @property
    def followed(self) -> Followed:
        """That it has the rule of the other one."""
        return Followed(*self.table, self.column, *self.to, self.referred)


def pointers(tables: Iterable[TableFacts]) -> list[Pointer]:
    """Those of the catalog."""
    return [
        Pointer((table.schema, table.name), each.column, (each.schema, each.table), each.referred)
        for table in tables
        for each in table.references
    ]


def described_pointers(of: Definition) -> Iterator[Pointer]:
    """Those of a table as a change of the schema describes it."""
    own = of["schema"], of["name"]
    for rule in of.get("constraints", ()):
        found = _KEY.match(rule["definition"]) if rule["type"] == "f" else None
        if found is not None:
            name = TablePattern.parse(rule["needs"]) if "needs" in rule else None
            to = (name.schema or "", name.table or "") if name is not None else own
            both = (map(bare, _NAME.findall(found[part])) for part in ("own", "other"))
            yield from (Pointer(own, column, to, referred) for column, referred in zip(*both, strict=True))


class Rules:
    """The rules of tables by name, with those that have come by foreign keys."""

    def __init__(self, rules: Transformations) -> None:
        self._rules = rules
        self.named = {(each.schema_, each.table): each for each in rules.table_transformers}

    def of(self, name: TableName, above: Iterable[TableName] = ()) -> TableRules | None:
        """Those of a table, or of the nearest of its parents that has some."""
        return next((self.named[each] for each in (name, *above) if each in self.named), None)

    def rule_of(self, name: TableName, column: str, above: Iterable[TableName] = ()) -> ColumnRule | None:
        """The rule of a column, if it changes values."""
        rules = self.of(name, above)
        rule = rules.column_transformers.get(column) if rules is not None else None
        return rule if rule is not None and rule.changes_values else None

    def mode(self, rule: ColumnRule) -> References:
        """What becomes of columns that point at one with this rule."""
        return rule.references or self._rules.references

    def follow(
        self, found: Iterable[Pointer], above: Mapping[TableName, tuple[TableName, ...]]
    ) -> list[Followed]:
        """Give columns that have no rule of their own that of what they point at; says which."""
        left, done = list(found), list[Followed]()
        grown = True
        while grown:
            grown = False
            for each in left:
                rule = self.rule_of(each.to, each.referred, above.get(each.to, ()))
                if rule is not None and self.mode(rule) == "follow" and can_follow(rule):
                    grown |= self._add(each, rule, above.get(each.table, ()), done)
        return done

    def take(self, followed: Iterable[Followed]) -> None:
        """The same by what is known from before."""
        for each in followed:
            rule = self.rule_of((each.of_schema, each.of_table), each.of_column)
            pointer = Pointer(
                (each.schema, each.table), each.column, (each.of_schema, each.of_table), each.of_column
            )
            if rule is not None and self.mode(rule) == "follow" and can_follow(rule):
                self._add(pointer, rule, (), [])

    def _add(
        self, pointer: Pointer, rule: ColumnRule, above: Iterable[TableName], done: list[Followed]
    ) -> bool:
        rules = self.of(pointer.table, above)
        if rules is not None and pointer.column in rules.column_transformers:
            return False
        schema, table = pointer.table
        own = rules or TableRules(schema=schema, table=table)
        columns = {**own.column_transformers, pointer.column: rule}
        named = {"schema_": schema, "table": table, "column_transformers": columns}
        self.named[pointer.table] = own.model_copy(update=named)
        done.append(pointer.followed)
        return True


def can_follow(rule: ColumnRule) -> bool:
    """Whether the same value becomes the same in every table, whatever else its row has."""
    return (
        rule.transform.is_deterministic
        and not rule.dynamic_parameters
        and not isinstance(rule.transform, Sql)
    )


def reference_problems(rules: Rules, tables: Iterable[TableFacts]) -> Iterator[tuple[str, str, str, str]]:
    """Foreign keys that would not hold in a target: table, column, what is wrong, and what to do."""
    facts = {(table.schema, table.name): table for table in tables}
    above = parents_by_name(facts.values())
    for pointer in pointers(facts.values()):
        if pointer.to not in facts:
            continue
        own = rules.rule_of(pointer.table, pointer.column, above.get(pointer.table, ()))
        other = rules.rule_of(pointer.to, pointer.referred, above.get(pointer.to, ()))
        deciding = other or own
        if deciding is None or rules.mode(deciding) == "ignore":
            continue
        found = _problem(pointer, own, other, facts, follows=rules.mode(deciding) == "follow")
        if found is not None:
            yield ".".join(pointer.table), pointer.column, *found


def parents_by_name(tables: Iterable[TableFacts]) -> dict[TableName, tuple[TableName, ...]]:
    """What partitions are partitions of."""
    return {
        (table.schema, table.name): tuple((parent.schema, parent.name) for parent in table.parents)
        for table in tables
    }


def _problem(
    pointer: Pointer,
    own: ColumnRule | None,
    other: ColumnRule | None,
    facts: Mapping[TableName, TableFacts],
    *,
    follows: bool,
) -> tuple[str, str] | None:
    to = f"{'.'.join(pointer.to)}.{pointer.referred}"
    ignore = "references: ignore at the rule lets it be"
    if own is None:
        assert other is not None
        if follows:
            return (
                f"its foreign key points at {to}, whose rule goes by chance or by other columns",
                f"Take another transformer for {to}; {ignore}",
            )
        return (
            f"its foreign key points at {to}, whose values a rule changes, and it has no rule",
            f"Set references: follow at the rule of {to}, or give it the same rule; {ignore}",
        )
    if isinstance(own.transform, Null):
        return None
    if other is None:
        return (
            f"its foreign key points at {to}, whose values go as they are",
            f"Give {to} the same rule, with references: follow, and this column none; {ignore}",
        )
    if own.transform != other.transform or not can_follow(own):
        return (
            f"its foreign key points at {to}, whose values become others",
            f"Give both the same deterministic rule; {ignore}",
        )
    if _form(facts, pointer.table, pointer.column) != _form(facts, pointer.to, pointer.referred):
        return (
            f"its type is not that of {to}, at which its foreign key points: a value may become two",
            f"Give both columns one type; {ignore}",
        )
    return None


def _form(facts: Mapping[TableName, TableFacts], table: TableName, column: str) -> tuple[str, int | None]:
    found: ColumnFacts = next(each for each in facts[table].columns if each.name == column)
    return base_type(found.type).name, longest(found.type)
