"""
Which columns of tables go on.

The configuration names columns, and a name is what the source may change at any time. So a column is judged
once, by the name under which it is first seen, and stays what it is under its number. What was judged is kept
in a file of the state directory: the targets were made by it.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, model_validator

from pgsluice.errors import TransformError
from pgsluice.modifiers.kept_file import read_kept, write_kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.table_facts import TableFacts

FILE: Final = "columns.json"


class ColumnList(BaseModel):
    """Which columns of a table go on: those that are named, or all others."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    include: tuple[str, ...] = ()
    """Only these go on; columns that are added later don't."""

    exclude: tuple[str, ...] = ()
    """All but these go on; columns that are added later do."""

    @model_validator(mode="after")
    def _names_some(self) -> ColumnList:
        if bool(self.include) == bool(self.exclude):
            raise ValueError("name columns under include or under exclude")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it has, of either kind."""
        return self.include or self.exclude

    def takes(self, name: str) -> bool:
        """Whether a column of that name goes on."""
        return name in self.include if self.include else name not in self.exclude


@dataclass(slots=True)
class JudgedColumn:
    """A column, and what became of it."""

    goes_on: bool
    names: list[str]  # that it has had, the one that it was judged by first


@dataclass(slots=True)
class JudgedTable:
    """A table with a list of columns."""

    names: list[list[str]] = field(default_factory=list)  # schema and name, the first ones first
    columns: dict[int, JudgedColumn] = field(default_factory=dict)  # by number
    shapes: list[list[Any]] = field(default_factory=list)  # numbers and names of all columns at some time


class ColumnChoices:
    """
    The lists of tables, and what was judged by them.

    Args:
        lists: by schema and name of the table.
        path: where it is kept what was judged; None: nowhere.
        writes: whether this process is the one that judges; others read, and leave out what is new to them.
    """

    def __init__(
        self, lists: Mapping[TableName, ColumnList], path: Path | None = None, *, writes: bool = True
    ) -> None:
        self._lists = dict(lists)
        self._path = path
        self._writes = writes
        self._lock = threading.Lock()  # every loop asks
        self._tables = _read(path)
        self._is_kept = True

    def __bool__(self) -> bool:
        return bool(self._lists or self._tables)

    @property
    def tables(self) -> Mapping[int, JudgedTable]:
        """What was judged so far, by number of the table."""
        return self._tables

    @property
    def lists(self) -> Mapping[TableName, ColumnList]:
        """As the configuration has them."""
        return self._lists

    def list_of(self, relid: int, name: TableName) -> ColumnList | None:
        """The list of a table: by its name, or by one that it had."""
        found = self._lists.get(name)
        known = self._tables.get(relid)
        if found is not None or known is None:
            return found
        return next((self._lists[each] for each in map(_pair, known.names) if each in self._lists), None)

    def learn(
        self, relid: int, name: TableName, columns: Iterable[tuple[int, str]], *, at_once: bool = False
    ) -> None:
        """
        Judge the columns of a table that are new, and note what the others are called.

        ``at_once``: all of these names were those of one time, in the order of the columns. A version of the
        stream has names of its time, and numbers that were looked up later.
        """
        list_ = self.list_of(relid, name)
        if list_ is None:
            return
        pairs = [(number, column) for number, column in columns if number]
        with self._lock:
            known = self._tables.setdefault(relid, JudgedTable())
            self._note(known.names, [*name])
            for number, column in pairs:
                judged = known.columns.setdefault(number, JudgedColumn(list_.takes(column), []))
                self._note(judged.names, column)
            if at_once:
                self._note(known.shapes, [[*pair] for pair in pairs])

    def know(self, tables: Iterable[TableFacts]) -> None:
        """The same for tables as the catalog has them."""
        for table in tables:
            for columns in (table.columns, [each for each in table.columns if not each.generated]):
                numbers = [(column.number, column.name) for column in columns]
                self.learn(table.relid, (table.schema, table.name), numbers, at_once=True)

    def go_on(self, version: TableVersion) -> list[bool]:
        """Which columns of a version of the stream go on, whose table was learnt."""
        table = self._tables[version.relid]
        names = [column.name for column in version.columns]
        answers = [{each.goes_on for each in table.columns.values() if name in each.names} for name in names]
        if all(len(answer) == 1 for answer in answers):
            return [answer == {True} for answer in answers]
        # A name was that of a column that goes on and of one that does not: all names together may tell.
        found = {
            tuple(table.columns[number].goes_on for number, _ in shape)
            for shape in table.shapes
            if [name for _, name in shape] == names
        }
        if len(found) == 1:
            return [*found.pop()]
        if not self._writes:
            return [answer == {True} for answer in answers]
        unclear = [name for name, answer in zip(names, answers, strict=True) if len(answer) != 1]
        raise TransformError(
            f"nobody can tell whether {', '.join(unclear)} of {version.qualified} may go on: the source has "
            "given the names of columns that the filter leaves out to others, or these to them",
            remedy="Let event triggers note changes of the schema (pgsluice init); else begin anew, with "
            "empty targets and another state_dir",
            table=version.qualified,
        )

    def left_out(self, relid: int) -> set[int]:
        """The numbers of columns that stay behind."""
        table = self._tables.get(relid)
        return {number for number, each in table.columns.items() if not each.goes_on} if table else set()

    def names_left_out(self, name: TableName) -> set[str]:
        """What columns that stay behind are or were called, of a table that is or was called so."""
        return {
            each
            for table in self._tables.values()
            if [*name] in table.names
            for column in table.columns.values()
            if not column.goes_on
            for each in column.names
        }

    def keep(self) -> None:
        """Write down what is new; before any row goes on by it."""
        with self._lock:
            if self._is_kept or not self._writes or self._path is None:
                return
            write_kept(self._path, {relid: asdict(table) for relid, table in self._tables.items()})
            self._is_kept = True

    def _note(self, names: list[Any], name: Any) -> None:
        if name not in names:
            names.append(name)
            self._is_kept = False


def _pair(name: list[str]) -> TableName:
    return name[0], name[1]


def _read(path: Path | None) -> dict[int, JudgedTable]:
    return {
        int(relid): JudgedTable(
            table["names"],
            {int(number): JudgedColumn(**column) for number, column in table["columns"].items()},
            table["shapes"],
        )
        for relid, table in (read_kept(path) or {}).items()
    }
