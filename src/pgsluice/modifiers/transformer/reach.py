"""
Which rule is for which column, also after renames.

Rules name tables and columns. A name is what the source may change at any time, and a value that a rule no
longer meets would leave as it is. So what was once ruled stays so under its number, and where nobody can tell
whether a column is the one that a rule means, the run stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.errors import TransformError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgsluice.modifiers.transformer.rules import ColumnRule, TableRules, Transformations
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.table_facts import TableFacts


_Place = tuple[int, int | str]
"""A table and a column, by their numbers; by the column's name where the number is not known."""


def _places(table: TableFacts, names: set[str]) -> set[_Place]:
    chosen = [column for column in table.columns if column.name in names]
    return {(table.relid, key) for column in chosen for key in (column.number, column.name)}


def _place(version: TableVersion, index: int) -> _Place:
    column = version.columns[index]
    return version.relid, column.number or column.name


class Reach:
    """The rules by what they are for."""

    def __init__(self, rules: Transformations) -> None:
        self._rules = rules
        self._named = {(each.schema_, each.table): each for each in rules.table_transformers}
        self._tables: dict[int, TableRules] = {}  # by number of the table
        self._numbers: dict[int, dict[str, int]] = {}  # by number of the table: those of ruled columns
        self._not_null: set[_Place] = set()
        self._random: set[_Place] = set()  # columns whose expressions go by chance

    def know(self, tables: Iterable[TableFacts]) -> None:
        """Learn the numbers of tables and columns as they are called now."""
        for table in tables:
            numbers = {column.name: column.number for column in table.columns}
            self._not_null |= _places(table, {column.name for column in table.columns if column.not_null})
            self._learn(table.relid, (table.schema, table.name), numbers)

    def takes_null(self, version: TableVersion, index: int) -> bool:
        """Whether a column may be NULL, as far as the catalog was asked."""
        return _place(version, index) not in self._not_null

    def note_random(self, table: TableFacts, columns: Iterable[str]) -> None:
        """Remember whose expressions go by chance, which only an analysis tells."""
        self._random |= _places(table, set(columns))

    def is_deterministic(self, version: TableVersion, index: int, rule: ColumnRule) -> bool:
        """Whether a rule always gives the same for the same value."""
        return rule.transform.is_deterministic and _place(version, index) not in self._random

    def rules_of(self, version: TableVersion) -> TableRules | None:
        """The rules of a table: those of its name, or those it had under another."""
        numbers = {column.name: column.number for column in version.columns if column.number}
        self._learn(version.relid, (version.schema, version.name), numbers)
        return self._tables.get(version.relid)

    def _learn(self, relid: int, name: tuple[str, str], numbers: dict[str, int]) -> None:
        rules = self._named.get(name)
        if rules is None:
            return
        self._tables.setdefault(relid, rules)
        known = self._numbers.setdefault(relid, {})
        for column in rules.column_transformers:
            if column in numbers:
                known.setdefault(column, numbers[column])

    def of_columns(self, version: TableVersion) -> dict[int, ColumnRule]:
        """The rules of a version's columns by index; raises where a column may be one that is ruled."""
        rules = self.rules_of(version)
        if rules is None:
            return {}
        ruled, known = rules.column_transformers, self._numbers.get(version.relid, {})
        by_number = {number: name for name, number in known.items()}
        found: dict[int, str] = {}
        for i, column in enumerate(version.columns):
            name = column.name if column.name in ruled else by_number.get(column.number)
            if name is not None:
                found[i] = name
        missing = set(ruled) - set(found.values())
        others = [column for i, column in enumerate(version.columns) if i not in found]
        if missing and others and (missing - set(known) or any(column.number == 0 for column in others)):
            name = min(missing)
            raise TransformError(
                f"{version.qualified} has no column {name}, which a rule is for: it may be one of "
                f"{', '.join(column.name for column in others)}, whose values would leave as they are",
                remedy="Name the column as the source does now, or give the others a rule, if only noop",
                table=version.qualified,
            )
        return {i: ruled[name] for i, name in found.items()}
