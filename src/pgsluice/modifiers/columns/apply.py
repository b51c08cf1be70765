"""The modifier that takes columns out of rows: ``values``, ``old`` and what says which did not change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigError
from pgsluice.modifiers.columns.described import without_columns
from pgsluice.modifiers.remembered import Remembered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from pgsluice.modifiers.columns.choice import ColumnChoices
    from pgsluice.schema.entry import SchemaEntry
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.table_facts import TableFacts


class ColumnFilter:
    """
    Leaves columns out. The last of a chain: conditions and rules may look at what stays behind.

    Rows of a table that is found by all of its columns are found by those that go on: rows that are alike in
    these are alike in the target.
    """

    def __init__(self, choices: ColumnChoices) -> None:
        self.choices = choices
        self._made = Remembered(self.touches, self._columns)

    def touches(self, version: TableVersion) -> bool:
        """Whether a table has a list of columns."""
        return self._places(version) is not None

    def narrowed(self, version: TableVersion) -> TableVersion:
        """A version as the rows have it afterwards."""
        places = self._places(version)
        if places is None:
            return version
        columns = tuple(version.columns[place] for place in places)
        names, gone = {column.name for column in columns}, self.choices.left_out(version.relid)
        naming = version.naming
        if not names.issuperset(naming):
            naming = tuple(column.name for column in columns) if version.identity == "f" else ()
        former = tuple((number, name) for number, name in version.former if number not in gone)
        return replace(version, columns=columns, naming=naming, former=former)

    def left_out(self, tables: Iterable[TableFacts]) -> dict[int, Collection[int]]:
        """By number of the table: the numbers of columns that the target is made without."""
        facts = list(tables)
        self.choices.know(facts)
        self.choices.keep()
        return {table.relid: gone for table in facts if (gone := self.choices.left_out(table.relid))}

    def entry_without(self, entry: SchemaEntry) -> SchemaEntry:
        """A change of the schema as far as it goes on."""
        narrowed = without_columns(entry, self.choices)
        self.choices.keep()
        return narrowed

    def __call__(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The frame with shorter rows."""
        made = self._made.of(frame, tables)
        return frame if made is None else frame.withColumns(made)

    def _places(self, version: TableVersion) -> tuple[int, ...] | None:
        """Where the columns that go on stand in a row; None when all do."""
        name = version.schema, version.name
        if self.choices.list_of(version.relid, name) is None:
            return None
        self.choices.learn(version.relid, name, ((each.number, each.name) for each in version.columns))
        self.choices.keep()
        places = tuple(place for place, goes_on in enumerate(self.choices.go_on(version)) if goes_on)
        if len(places) == len(version.columns):
            return None
        behind = [each for place, each in enumerate(version.columns) if place not in places]
        if version.identity != "f" and any(each.in_identity for each in behind):
            raise in_key(version.qualified, [each.name for each in behind if each.in_identity])
        return places

    def _columns(self, _: SparkSession, touched: Sequence[TableVersion]) -> dict[str, Column]:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        def of_all(column: str, made: Mapping[int, str]) -> Column:
            cases = " ".join(f"when {number} then {text}" for number, text in made.items())
            return F.expr(f"case relation {cases} else `{column}` end")

        places = {version.id: self._places(version) or () for version in touched}
        rows = {
            row: of_all(row, {number: _shorter(row, kept) for number, kept in places.items()})
            for row in ("values", "old")
        }
        return {
            **rows,
            "unchanged": of_all("unchanged", {number: _moved(kept) for number, kept in places.items()}),
        }


def in_key(table: str, columns: Sequence[str]) -> ConfigError:
    """What is said of a key that would not be whole."""
    return ConfigError(
        f"the filter leaves out {', '.join(columns)} of {table}, by which UPDATE and DELETE find their row",
        remedy="Let the columns of the key go on, under a rule that changes their values if need be",
    )


def _shorter(row: str, places: Sequence[int]) -> str:
    kept = ", ".join(f"get(`{row}`, {place})" for place in places)
    return f"if(`{row}` is null, null, array({kept}))"


def _moved(places: Sequence[int]) -> str:
    """The places of columns that did not change, among those that go on."""
    kept = f"array({', '.join(map(str, places))})"
    moved = f"transform(array_intersect(unchanged, {kept}), i -> int(array_position({kept}, i) - 1))"
    return f"if(size({moved}) > 0, {moved}, if(unchanged is null, null, cast(array() as array<int>)))"
