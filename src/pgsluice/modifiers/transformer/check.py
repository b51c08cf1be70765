"""What is wrong with rules, by the source's catalog: found at the start, before any value leaves."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.modifiers.transformer.check_place import place_problems, telling_columns
from pgsluice.modifiers.transformer.references import (
    Rules,
    parents_by_name,
    pointers,
    reference_problems,
)
from pgsluice.modifiers.transforms.base import family, longest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pgsluice.modifiers.transformer.rules import ColumnRule, OnError, TableRules, Transformations
    from pgsluice.schema.table import PgType
    from pgsluice.schema.table_facts import ColumnFacts, TableFacts

_ENOUGH: Final = 2**31  # of so many, two of a thousand values meet with a chance of 1 in 4,000


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """One fault of the rules."""

    table: str
    column: str | None
    problem: str
    remedy: str

    @property
    def where(self) -> str:
        """The column, or the table."""
        return f"{self.table}.{self.column}" if self.column else self.table

    def as_dict(self) -> dict[str, str | None]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


def rule_problems(rules: Transformations, tables: Iterable[TableFacts]) -> list[RuleProblem]:
    """Every fault, in the order of the rules; then tables that have none and must; then foreign keys."""
    facts = {(table.schema, table.name): table for table in tables}
    named, above = Rules(rules), parents_by_name(facts.values())
    named.follow(pointers(facts.values()), above)
    found: list[RuleProblem] = []
    for name, each in named.named.items():
        if name not in facts:
            found.append(_unknown_table(each, facts.values()))
        else:
            found += _of_table(rules, each, facts[name])
    known = {(each.column, each.problem) for each in found}  # what is wrong with a root is said once
    for name, table in facts.items():
        own = named.of(name, above[name])
        if own is None and rules.is_strict(None) and not table.is_partitioned:
            found.append(_without_rules(table))
        elif own is not None and name not in named.named:
            inherited = _of_table(rules, own, table)
            found += [each for each in inherited if (each.column, each.problem) not in known]
    return [*found, *(RuleProblem(*each) for each in reference_problems(named, facts.values()))]


def _unknown_table(rules: TableRules, tables: Iterable[TableFacts]) -> RuleProblem:
    name = f"{rules.schema_}.{rules.table}"
    nearest = difflib.get_close_matches(name, [table.qualified for table in tables], n=1)
    return RuleProblem(
        name,
        None,
        "no such table is replicated",
        f"Did you mean {nearest[0]}?" if nearest else "Remove its rules, or replicate the table",
    )


def _without_rules(table: TableFacts) -> RuleProblem:
    return RuleProblem(
        table.qualified,
        None,
        "has no rules, and validation is strict",
        "Give every column a rule (noop lets values go as they are), or leave the table out",
    )


def _of_table(rules: Transformations, own: TableRules, table: TableFacts) -> Iterator[RuleProblem]:
    columns = {column.name: column for column in table.columns}
    for name, rule in own.column_transformers.items():
        if name not in columns:
            nearest = difflib.get_close_matches(name, columns, n=1)
            remedy = f"Did you mean {nearest[0]}?" if nearest else "Remove the rule"
            yield RuleProblem(table.qualified, name, "the table has no such column", remedy)
            continue
        for problem, remedy in _of_column(rule, columns[name], table, rules.on_error):
            yield RuleProblem(table.qualified, name, problem, remedy)
    for name, problem, remedy in telling_columns(own, table):
        yield RuleProblem(table.qualified, name, problem, remedy)
    if rules.is_strict(own):
        for column in table.columns:
            if column.name not in own.column_transformers:
                yield RuleProblem(
                    table.qualified,
                    column.name,
                    "has no rule, and validation is strict",
                    "Give it one; noop lets values go as they are",
                )


def _of_column(
    rule: ColumnRule, column: ColumnFacts, table: TableFacts, on_error: OnError
) -> Iterator[tuple[str, str]]:
    transform = rule.transform
    if rule.changes_values:
        yield from place_problems(column)
    kind = family(column.type)
    if transform.families is not None and kind not in transform.families:
        takes = ", ".join(sorted(transform.families))
        yield f"{rule.name} is for {takes}, and the column is {column.type.name}", "Take another transformer"
    elif (problem := transform.problem(column.type)) is not None:
        yield f"{rule.name} can't serve {column.type.name}: {problem}", "Change its parameters"
    else:
        yield from _of_length(rule, column.type)
    if column.not_null:
        yield from _of_null(rule, on_error)
    yield from key_problems(rule, column, table)
    names = {each.name for each in table.columns}
    for parameter, source in rule.sources.items():
        if source not in names:
            yield f"{parameter} comes from {source}, which is no column of it", "Name another one"
        elif column.name in table.key and source not in table.key:
            yield (
                f"{parameter} comes from {source}, and a DELETE has nothing beside the key",
                "Name a column of the key, or set REPLICA IDENTITY FULL",
            )


def _of_length(rule: ColumnRule, type_: PgType) -> Iterator[tuple[str, str]]:
    """What would not fit, or lose what tells values apart if it were cut."""
    most = longest(type_.element or type_) if family(type_) in ("text", "texts") else None
    if most is None:
        return
    least, greatest = rule.transform.lengths
    if least > most:
        gives = f"{least} characters" + ("" if least == greatest else " or more")
        yield f"{rule.name} gives {gives}, and the column holds {most}", "Take another transformer"
    elif greatest is not None and greatest > most and not rule.transform.may_be_cut:
        yield (
            f"{rule.name} gives up to {greatest} characters, and the column holds {most}",
            "Change its parameters",
        )


def _of_null(rule: ColumnRule, on_error: OnError) -> Iterator[tuple[str, str]]:
    """What a column that is NOT NULL would refuse."""
    nulls = rule.transform.nulls
    if nulls == "always":
        yield "the column takes no NULL, which the rule gives", "Take another transformer"
    elif nulls != "never" and on_error == "null":
        yield (
            f"the column takes no NULL, and on_error: null gives one where {rule.name} can't change a value",
            "Take another transformer, or on_error: stop",
        )


def key_problems(
    rule: ColumnRule, column: ColumnFacts, table: TableFacts, *, is_random: bool = False
) -> Iterator[tuple[str, str]]:
    """Rows must find themselves again, and not meet: a random or lossy transform on a key does not do."""
    transform = rule.transform
    is_random = is_random or not transform.is_deterministic
    if rule.allow_uniqueness_loss:
        return
    allow = "take a deterministic one that keeps values apart, or set allow_uniqueness_loss: true"
    finds_rows = column.name in table.key or table.identity == "f"
    unique = any(column.name in index for index in table.unique)
    outcomes = transform.outcomes(column.type)
    if is_random and finds_rows:
        yield (
            f"{rule.name} is random, and UPDATE and DELETE find their row by this column",
            "Use generator: deterministic or a seed; or " + allow,
        )
    elif is_random and unique:
        yield f"{rule.name} is random, and the column is in a unique index", allow.capitalize()
    elif unique and not transform.mostly_keeps_values_apart:
        yield f"{rule.name} may make two values one, and the column is in a unique index", allow.capitalize()
    elif unique and outcomes is not None and outcomes < _ENOUGH:
        yield (
            f"{rule.name} draws of {outcomes:,.0f} values alone, and the column is in a unique index",
            "Widen its range, " + allow,
        )
