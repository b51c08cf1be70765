"""What is wrong with lists of columns, by the catalog of the source and by what was judged before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.errors import ConfigError
from pgsluice.modifiers.columns.apply import in_key
from pgsluice.modifiers.columns.described import made_from, require_alone

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pgsluice.modifiers.columns.choice import ColumnChoices, ColumnList, JudgedTable
    from pgsluice.schema.table_facts import TableFacts


def require_columns(choices: ColumnChoices, tables: Sequence[TableFacts], carried: Collection[int]) -> None:
    """
    Raise when the lists don't fit the source, or the targets, which were made by what was judged before.

    ``carried`` are the tables that the pipeline has met, by their numbers.
    """
    for table in tables:
        list_, known = (
            choices.list_of(table.relid, (table.schema, table.name)),
            choices.tables.get(table.relid),
        )
        if list_ is None and known is not None:
            raise _otherwise(table, "all of its columns go on now")
        if list_ is not None:
            if known is None and table.relid in carried:
                raise _otherwise(table, "it has a list of columns now")
            _require_known_names(table, list_, known)
            _require_same(table, list_, known)
            require_alone(table.qualified, table.has_family)
    choices.know(tables)
    for table in tables:
        gone = choices.left_out(table.relid)
        behind = {column.name for column in table.columns if column.number in gone}
        if not behind:
            continue
        if len(behind) == len(table.columns):
            raise ConfigError(f"the filter leaves out all columns of {table.qualified}", remedy=_REMEDY)
        if table.key & behind:
            raise in_key(table.qualified, sorted(table.key & behind))
        for column in table.columns:
            if column.name not in behind and column.made_from & behind:
                raise made_from(table.qualified, column.name)


_REMEDY: Final = "Mend columns under modifiers.filter.tables"


def _require_known_names(table: TableFacts, list_: ColumnList, known: JudgedTable | None) -> None:
    """A name that is mistyped would let a column go on."""
    names = {column.name for column in table.columns}
    for column in known.columns.values() if known else ():
        names.update(column.names)
    for name in list_.names:
        if name not in names:
            raise ConfigError(
                f"{table.qualified} has no column {name}, which the filter names", remedy=_REMEDY
            )


def _require_same(table: TableFacts, list_: ColumnList, known: JudgedTable | None) -> None:
    for column in table.columns:
        judged = known.columns.get(column.number) if known else None
        if judged is not None and judged.goes_on not in map(list_.takes, {column.name, judged.names[0]}):
            raise _otherwise(table, f"{column.name} {'stays behind' if judged.goes_on else 'goes on'} now")


def _otherwise(table: TableFacts, what: str) -> ConfigError:
    return ConfigError(
        f"the targets have {table.qualified} with other columns than the filter says: {what}",
        remedy="Put columns under modifiers.filter.tables back; or begin anew, with empty targets and "
        "another state_dir",
    )
