"""Columns that no rule can serve, whatever it does to values: by what they are for in their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.schema.literals import tells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.modifiers.transformer.rules import TableRules
    from pgsluice.schema.table_facts import ColumnFacts, TableFacts


def place_problems(column: ColumnFacts) -> Iterator[tuple[str, str]]:
    """What is wrong with a rule that changes the values of a column, and what to do."""
    if column.generated:
        yield (
            "the column is generated, and a target makes its values anew from the others",
            f"Give the columns that it is made from a rule: {', '.join(sorted(column.made_from))}",
        )
    if column.places_rows:
        yield (
            "rows are told to partitions by this column, and the bounds of partitions have its values",
            "Let it go as it is (noop)",
        )


def telling_columns(own: TableRules, table: TableFacts) -> Iterator[tuple[str, str, str]]:
    """Generated columns whose expression would show a value: the column, what is wrong, and what to do."""
    changed = {name for name, rule in own.column_transformers.items() if rule.changes_values}
    for column in table.columns:
        if column.made_by is not None and column.made_from & changed and tells(column.made_by):
            yield (
                column.name,
                "is generated from a column whose values a rule changes, by an expression with a value in it",
                "Leave it out (columns under modifiers.filter.tables), or its table",
            )
