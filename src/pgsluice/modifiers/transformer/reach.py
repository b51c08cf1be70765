"""
Which rule is for which column, also after renames.

Rules name tables and columns. A name is what the source may change at any time, and a value that a rule no
longer meets would leave as it is. So what was once ruled stays so under its number, and where nobody can tell
whether a column is the one that a rule means, the run stops. Rules of a partitioned table hold for its
partitions, and those of a key for what points at it, if they are to follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.errors import TransformError
from pgsluice.modifiers.lineage import Lineage, said_of
from pgsluice.modifiers.transformer.book import RuleBook, fingerprint
from pgsluice.modifiers.transformer.references import (
    Rules,
    described_pointers,
    parents_by_name,
    pointers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pgsluice.modifiers.transformer.rules import ColumnRule, TableRules, Transformations
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry
    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table import Column, TableVersion
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
    """
    The rules by what they are for.

    Args:
        rules: as they were written.
        salt: gives the secret of deterministic transforms.
        lineage: which tables are partitions of which.
        book: what is kept of rules.
    """

    def __init__(
        self,
        rules: Transformations,
        salt: Callable[[], bytes] = bytes,
        lineage: Lineage | None = None,
        book: RuleBook | None = None,
    ) -> None:
        self.rules = rules
        self.book = book or RuleBook()
        self.lineage = lineage or Lineage()
        self.age = 0  # grows when columns come to have other rules
        self._salt = salt
        self._rules = Rules(rules)
        self._rules.take(self.book.followed)
        named = self._rules.named
        self._tables = {  # by number of the table
            relid: named[name] for relid, name in self.book.tables.items() if name in named
        }
        self._numbers: dict[int, dict[str, int]] = {}  # by number of the table: those of ruled columns
        self._not_null: set[_Place] = set()
        self._random: set[_Place] = set()  # columns whose expressions go by chance
        self._called: dict[TableName, set[str]] = {}  # by name of the table: columns that are changed
        self._noted: set[TableVersion] = set()

    def know(self, tables: Collection[TableFacts]) -> None:
        """Learn the numbers of tables and columns as they are called now, and what points at them."""
        self.lineage.know(tables)
        self.book.follow(self._rules.follow(pointers(tables), parents_by_name(tables)))
        for table in tables:
            numbers = {column.name: column.number for column in table.columns}
            self._not_null |= _places(table, {column.name for column in table.columns if column.not_null})
            self.learn(table.relid, (table.schema, table.name), numbers)

    def learn_entry(self, entry: SchemaEntry) -> set[int]:
        """
        Learn from a change of the schema; gives tables that have rules by it which they had not before.

        It says the same to every loop that comes to the change.
        """
        for change in entry.changes:
            if change.before is not None and change.before["kind"] == "table":
                self._learn_described(change.oid, change.before)
        self.lineage.learn_entry(entry)
        found = set()
        for change in entry.changes:
            if change.after is not None and change.after["kind"] == "table":
                self._follow(change.oid, change.after)
                rules = self._learn_described(change.oid, change.after)
                if rules is not None and (change.is_attached or self._points_anew(change)):
                    found.add(change.oid)
        return found

    def _learn_described(self, oid: int, of: Definition) -> TableRules | None:
        columns = {each["name"]: each["number"] for each in of["columns"]}
        self.book.note_names(oid, columns)
        return self.learn(oid, (of["schema"], of["name"]), columns)

    def _number(self, version: TableVersion, column: Column) -> int:
        """Of a column that nobody has looked up, or whose name is gone: by what is known of its table."""
        called = self.book.numbers_called(version.relid, column.name)
        return column.number or (min(called) if len(called) == 1 else 0)

    def _points_anew(self, change: ObjectChange) -> bool:
        """Whether a column that was there has a rule now by a foreign key that was not."""
        if change.before is None or change.after is None:
            return False
        new = {*described_pointers(change.after)} - {*described_pointers(change.before)}
        was = {each["name"] for each in change.before["columns"]}
        return any(each.followed in self.book.followed and each.column in was for each in new)

    def _follow(self, oid: int, of: Definition) -> None:
        """Rules of keys that a table points at."""
        name, found = (of["schema"], of["name"]), [*described_pointers(of)]
        had = self._tables.get(oid)
        if found and had is not None:  # it may have them under a name of before
            self._rules.named.setdefault(name, had)
        above = tuple((parent.schema, parent.name) for parent in self.lineage.above(oid))
        followed = self._rules.follow(found, {name: above})
        if followed:
            self.age += 1
            self.book.follow(followed)
            self._tables = {relid: rules for relid, rules in self._tables.items() if rules is not had}
            self._tables[oid] = self._rules.named[name]

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
        """The rules of a table: those of its name, or those it had under another, or of its parent."""
        self.lineage.learn(version)
        numbers = {column.name: column.number for column in version.columns if column.number}
        return self.learn(version.relid, (version.schema, version.name), numbers)

    def learn(self, relid: int, name: TableName, numbers: Mapping[str, int]) -> TableRules | None:
        """The same for a table with these columns."""
        rules = said_of(relid, name, self._rules.named, self._tables, self.lineage)
        if rules is not None:
            known = self._numbers.setdefault(relid, {})
            for column, number in self.book.numbers_of(relid).items():
                if column in rules.column_transformers and column not in numbers:
                    known.setdefault(column, number)
            for column in rules.column_transformers:
                if column in numbers:
                    known.setdefault(column, numbers[column])
            ruled = rules.column_transformers
            changed = {known.get(column) for column, rule in ruled.items() if rule.changes_values}
            self._called.setdefault(name, set()).update(
                column
                for column, number in numbers.items()
                if number in changed or (column in ruled and ruled[column].changes_values)
            )
        return rules

    def called(self, name: TableName) -> set[str]:
        """What columns are or were called whose values are changed, of a table that is or was called so."""
        return self._called.get(name, set())

    def by_number(self, relid: int, name: TableName, columns: Mapping[str, int]) -> dict[int, ColumnRule]:
        """The rules of a table's columns by their numbers, for columns with these names at one time."""
        rules = self.learn(relid, name, columns)
        if rules is None:
            return {}
        ruled, known = rules.column_transformers, self._numbers.get(relid, {})
        found = {number: ruled[column] for column, number in known.items() if column in ruled}
        return {**{number: ruled[column] for column, number in columns.items() if column in ruled}, **found}

    def changed(self, tables: Iterable[TableFacts]) -> dict[int, set[int]]:
        """By number of the table: the numbers of columns whose values are changed."""
        found = {}
        for table in tables:
            numbers = {column.name: column.number for column in table.columns}
            rules = self.by_number(table.relid, (table.schema, table.name), numbers)
            found[table.relid] = {number for number, rule in rules.items() if rule.changes_values}
        return {relid: numbers for relid, numbers in found.items() if numbers}

    def of_columns(self, version: TableVersion) -> dict[int, ColumnRule]:
        """The rules of a version's columns by index; raises where a column may be one that is ruled."""
        rules = self.rules_of(version)
        found = self._found(version, rules)
        self._note(version, found)
        return found

    def _found(self, version: TableVersion, rules: TableRules | None) -> dict[int, ColumnRule]:
        if rules is None:
            return {}
        ruled, known = rules.column_transformers, self._numbers.get(version.relid, {})
        by_number = {number: name for name, number in known.items()}
        found: dict[int, str] = {}
        numbers = [self._number(version, column) for column in version.columns]
        for i, column in enumerate(version.columns):
            name = column.name if column.name in ruled else by_number.get(numbers[i])
            if name is not None:
                found[i] = name
        missing = set(ruled) - set(found.values())
        others = [column for i, column in enumerate(version.columns) if i not in found]
        unclear = any(numbers[i] == 0 for i in range(len(numbers)) if i not in found)
        if missing and others and (missing - set(known) or unclear):
            name = min(missing)
            raise TransformError(
                f"{version.qualified} has no column {name}, which a rule is for: it may be one of "
                f"{', '.join(column.name for column in others)}, whose values would leave as they are",
                remedy="Name the column as the source does now, or give the others a rule, if only noop",
                table=version.qualified,
            )
        return {i: ruled[name] for i, name in found.items()}

    def _note(self, version: TableVersion, found: Mapping[int, ColumnRule]) -> None:
        """Keep how columns are changed, before any row goes on."""
        if version not in self._noted:
            prints = {
                column.number: fingerprint(found.get(i), self._salt)
                for i, column in enumerate(version.columns)
                if column.number
            }
            self.book.note(version.relid, prints)
            numbers = {column.name: column.number for column in version.columns if column.number}
            self.book.note_names(version.relid, numbers)
            if (rules := self._tables.get(version.relid)) is not None:
                known = self._numbers.get(version.relid, {})
                self.book.note_name(version.relid, (rules.schema_, rules.table), known)
            self._noted.add(version)
        self.lineage.keep()
        self.book.keep()
