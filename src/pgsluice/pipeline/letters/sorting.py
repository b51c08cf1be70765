"""
Which rows of one table of a batch can't be applied: refused by the target, or waiting behind one that was.

While a row has an open letter, later changes of its key wait behind it, so that a replay never puts an older
row over a newer one. An applied TRUNCATE ends that. The refused rows are found by halving, in a trial that
keeps what it has taken: each row is judged on top of all rows before it that are applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.changelog.envelope import TRUNCATE
from pgsluice.changelog.position import Lsn, Position
from pgsluice.pipeline.letters.keys import first_cell, key_columns, key_places, row_keys
from pgsluice.pipeline.letters.place import Place
from pgsluice.state.dead_letter import Emptied, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pgsluice.errors import TargetError
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Trial
    from pgsluice.state.dead_letter import Letter

WAITING: str = "SLUICE-WAITS"


@dataclass(slots=True)
class Blocked:
    """The keys of one table that have a letter, and which."""

    keys: dict[str, Position] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None  # of the keys
    everything: Position | None = None  # a letter that all rows of the table wait behind
    first_cells: set[str | None] = field(default_factory=set)

    @classmethod
    def by(cls, letters: Iterable[Refused]) -> Blocked:
        """What letters block."""
        blocked = cls()
        for letter in letters:
            blocked.add(letter)
        return blocked

    def add(self, letter: Refused) -> None:
        """Block the keys of a letter."""
        if not letter.keys or self.columns not in (None, letter.key_columns):
            self.everything = self.everything or letter.position
            return
        self.columns = letter.key_columns
        for key in letter.keys:
            self.keys.setdefault(key, letter.position)
            self.first_cells.add(first_cell(key))

    def behind(self, keys: Iterable[str], columns: tuple[str, ...]) -> Position | None:
        """The letter that a row with these keys waits behind; None if it need not wait."""
        if self.everything is not None:
            return self.everything
        if self.columns not in (None, columns):  # another identity: nobody can tell which rows these are
            return min(self.keys.values(), default=None)
        return min((self.keys[key] for key in keys if key in self.keys), default=None)


class TableRows:
    """The rows of one table in a batch, in order, and what becomes of them."""

    def __init__(
        self,
        table: str,
        rows: pa.Table,
        tables: Mapping[int, TableVersion],
        letters: Sequence[Letter] = (),
    ) -> None:
        self.table = table
        self._rows = rows
        self._tables = tables
        self._letters = letters  # open ones of before the batch
        self._errors: dict[int, TargetError] = {}
        self._out: dict[int, Refused] = {}
        self._emptied: Emptied | None = None
        self._ops: list[str] = rows["op"].to_pylist()
        self._relations: list[int] = rows["relation"].to_pylist()
        self._new, self._old = _first_cells(rows, tables)
        self._hold_waiting()

    @property
    def refused(self) -> list[Refused]:
        """What can't be applied, in order."""
        return [self._out[index] for index in sorted(self._out)]

    @property
    def emptied(self) -> Emptied | None:
        """The last TRUNCATE that is applied."""
        return self._emptied

    @property
    def left_out(self) -> set[Place]:
        """Where the rows stand that can't be applied."""
        return {Place(*self._position(index), self._relations[index]) for index in self._out}

    @property
    def taken(self) -> pa.Table:
        """The other rows."""
        return self._rows.take(pa.array(self._chosen(0, len(self._ops)), pa.int64()))

    def find_refused(self, trial: Trial, note: Callable[[Refused], None]) -> None:
        """Find all rows that the target refuses; ``note`` hears of each, and may raise."""
        self._accept(trial, 0, len(self._ops), note)

    def _accept(self, trial: Trial, start: int, end: int, note: Callable[[Refused], None]) -> None:
        chosen = self._chosen(start, end)
        if not chosen:
            return
        error = trial.take(self._rows.take(pa.array(chosen, pa.int64())), self._tables)
        if error is None:
            return
        if len(chosen) == 1:
            self._errors[chosen[0]] = error
            self._hold_waiting()
            note(self._out[chosen[0]])
            return
        middle = chosen[len(chosen) // 2]
        self._accept(trial, start, middle, note)
        self._accept(trial, middle, end, note)

    def _chosen(self, start: int, end: int) -> list[int]:
        return [index for index in range(start, end) if index not in self._out]

    def _hold_waiting(self) -> None:
        """Go through all rows with what is known of refused ones."""
        self._out, self._emptied = {}, None
        blocked = Blocked.by(self._letters)
        for index, op in enumerate(self._ops):
            error = self._errors.get(index)
            if op == TRUNCATE and error is None:
                blocked, self._emptied = Blocked(), Emptied(self.table, self._position(index))
            elif error is not None or self._may_wait(index, blocked):
                refused = self._judged(index, error, blocked)
                if refused is not None:
                    self._out[index] = refused
                    blocked.add(refused)

    def _may_wait(self, index: int, blocked: Blocked) -> bool:
        """Whether it is worth a closer look."""
        if not blocked.keys and blocked.everything is None:
            return False
        columns = key_columns(self._tables[self._relations[index]]) if blocked.keys else None
        return (
            blocked.everything is not None
            or columns != blocked.columns
            or self._new[index] in blocked.first_cells
            or self._old[index] in blocked.first_cells
        )

    def _judged(self, index: int, error: TargetError | None, blocked: Blocked) -> Refused | None:
        row: dict[str, Any] = self._rows.slice(index, 1).to_pylist()[0]
        version = self._tables[row["relation"]]
        keys, columns = row_keys(row, version), key_columns(version)
        behind = None if error is not None else blocked.behind(keys, columns)
        if error is None and behind is None:
            return None
        return Refused(
            table=self.table,
            position=self._position(index),
            op=row["op"],
            version=version.id,
            key_columns=columns,
            keys=keys,
            code=error.code if error is not None else WAITING,
            message=str(error) if error is not None else "an earlier change of this row has a letter",
            column=error.fields.get("column") if error is not None else None,
            behind=behind,
        )

    def _position(self, index: int) -> Position:
        return Position(Lsn(self._rows["commit_lsn"][index].as_py()), self._rows["seq"][index].as_py())


def by_table(
    chunks: Iterable[pa.Table], tables: Mapping[int, TableVersion], wanted: Callable[[str], bool]
) -> dict[str, pa.Table]:
    """The rows of wanted tables, by the name that the target has for them."""
    numbers: dict[str, list[int]] = {}
    for number, version in tables.items():
        if wanted(version.qualified):
            numbers.setdefault(version.qualified, []).append(number)
    found: dict[str, list[pa.Table]] = {name: [] for name in numbers}
    for chunk in chunks:
        for name, relations in numbers.items():
            mask = pc.is_in(chunk["relation"], pa.array(relations, pa.int32()))
            found[name].append(chunk.filter(mask))
    return {name: pa.concat_tables(parts) for name, parts in found.items() if parts}


def _first_cells(
    rows: pa.Table, tables: Mapping[int, TableVersion]
) -> tuple[list[str | None], list[str | None]]:
    """For each row the first column of its key, after and before the change."""
    numbers = rows["relation"].to_numpy()
    cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
    new: list[str | None] = []
    old: list[str | None] = []
    for start, end in pairwise([0, *cuts, len(numbers)]):
        if end == start:
            continue
        places = key_places(tables[int(numbers[start])])
        run = rows.slice(start, end - start)
        for cells, into in ((run["values"], new), (run["old"], old)):
            into.extend(pc.list_element(cells, places[0]).to_pylist() if places else [None] * run.num_rows)
    return new, old
