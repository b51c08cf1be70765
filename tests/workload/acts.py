"""What is done to one table: each act is a few statements that fit whatever rows there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import TypeAlias

    from tests.workload.shapes import Table

    Act: TypeAlias = Callable[[Table, random.Random, "Lane"], list[str]]

LANE = 10**9  # numbers that a writer has for itself: two of them never make rows of the same number
PARKING = 10**15  # where numbers wait while others change places
COPIES = 40  # different numbers of rows that may be equal

_SIZES = (1, 2, 20, 150, 300)
_EVERY = (2, 5, 10, 10, 40, 200)


@dataclass(slots=True)
class Lane:
    """The numbers of one writer."""

    number: int
    taken: int = 0

    def take(self, count: int) -> tuple[int, int]:
        """The first and last of so many new ones."""
        first = self.number * LANE + self.taken + 1
        self.taken += count
        return first, first + count - 1


def acts_of(table: Table) -> list[tuple[Act, int]]:
    """What can be done to a table, with how often."""
    if not table.number:
        return [(insert_nothing, 3), (delete_nothing, 2)] if table.truncates else []
    possible: tuple[tuple[Act, int, object], ...] = (
        (insert, 5, True),
        (update, 6, True),
        (delete, 2, True),
        (put_again, 2, table.is_key and not table.inserts_from),
        (change_sign, 2, table.is_key),
        (move, 2, not table.is_key),
        (swap, 3, table.swaps),
        (reverse, 3, table.reverses),
        (renew, 2, table.renews),
    )
    return [(act, weight) for act, weight, is_possible in possible if is_possible]


def insert(table: Table, dice: random.Random, lane: Lane, size: int | None = None) -> list[str]:
    """New rows; of tables without a key perhaps some that are there already."""
    first, last = lane.take(size or dice.choice(_SIZES))
    number = "g" if table.is_key else f"g % {COPIES}"
    salt = _salt(dice) if table.is_key else dice.randrange(3)
    names = [table.number, *(column.name for column in table.columns)]
    values = [number, *(column.value(f"({number})", salt) for column in table.columns)]
    rows = f"generate_series({first}, {last}) AS g"
    if table.inserts_from:
        names, values = [table.refers_by, *names], ["of.id", *values]
        count = last - first + 1
        rows = (
            f"(SELECT id, {first} + row_number() OVER () - 1 AS g FROM {table.inserts_from}"
            f" WHERE {_pick('id', dice)} LIMIT {count}) AS of"
        )
    return [f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {', '.join(values)} FROM {rows}"]


def update(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Other values in some columns, or the same ones again."""
    del lane
    free = table.free_columns
    chosen = dice.sample(free, dice.randint(1, len(free)))
    salt = _salt(dice)
    values = ", ".join(f"{column.name} = {column.value(_positive(table), salt)}" for column in chosen)
    return [f"UPDATE {table.name} SET {values} WHERE {_rows(table, dice)}"]


def delete(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Some rows go."""
    del lane
    return [f"DELETE FROM {table.name} WHERE {_rows(table, dice)}"]


def put_again(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Rows go, and others come under the same key in the same transaction."""
    del lane
    kept = [table.number, *(column.name for column in table.columns if column.is_unique)]
    free, salt = table.free_columns, _salt(dice)
    names = ", ".join([*kept, *(column.name for column in free)])
    values = ", ".join([*kept, *(column.value(_positive(table), salt) for column in free)])
    returned = ", ".join(kept)
    gone = f"DELETE FROM {table.name} WHERE {_rows(table, dice)} RETURNING {returned}"
    return [f"WITH gone AS ({gone}) INSERT INTO {table.name} ({names}) SELECT {values} FROM gone"]


def change_sign(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Another key."""
    del lane
    return [f"UPDATE {table.name} SET {table.number} = -{table.number} WHERE {_rows(table, dice)}"]


def move(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Another number for rows that may be equal, which is another partition for some."""
    del lane
    number = f"(abs({table.number}) + {dice.randrange(1, COPIES)}) % {COPIES}"
    return [f"UPDATE {table.name} SET {table.number} = {number} WHERE {_rows(table, dice)}"]


def swap(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Unique values change places with their neighbours, by way of others that nobody has."""
    column = dice.choice(table.swaps)
    pairs, parked = _pairs(column, dice), PARKING * lane.number
    steps = (
        (parked, f"{pairs} AND {column} % 2 = 0"),
        (-1, f"{pairs} AND {column} % 2 = 1"),
        (1 - parked, f"{column} BETWEEN {parked} AND {parked + PARKING - 1}"),
    )
    return [f"UPDATE {table.name} SET {column} = {column} + ({by}) WHERE {which}" for by, which in steps]


def reverse(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """The same in one statement, which is possible where they are checked late."""
    del lane
    column = dice.choice(table.reverses)
    return [
        f"UPDATE {table.name} SET {column} = {column} + 1 - 2 * ({column} % 2) WHERE {_pairs(column, dice)}"
    ]


def renew(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """The next number of a sequence as key."""
    del lane
    return [f"UPDATE {table.name} SET {table.renews} = DEFAULT WHERE {_rows(table, dice)}"]


def insert_nothing(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Rows without columns."""
    del lane
    return [f"INSERT INTO {table.name} SELECT FROM generate_series(1, {dice.choice(_SIZES)})"]


def delete_nothing(table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """Some of them go."""
    del lane
    some = f"SELECT ctid FROM {table.name} LIMIT {dice.choice(_SIZES)}"
    return [f"DELETE FROM {table.name} WHERE ctid = ANY (ARRAY({some}))"]


def truncate(table: Table, dice: random.Random) -> str:
    """A statement that empties it, or a part of it."""
    return dice.choice(table.truncates)


def _rows(table: Table, dice: random.Random) -> str:
    """Some of the rows; of equal ones not all."""
    if table.is_key:
        return _pick(table.number, dice)
    some = f"SELECT tableoid, ctid FROM {table.name} WHERE {_pick(table.number, dice)}"
    return f"(tableoid, ctid) IN ({some} LIMIT {dice.choice((1, 7, 100))})"


def _pick(number: str, dice: random.Random) -> str:
    every = dice.choice(_EVERY)
    return f"abs({number}) % {every} = {dice.randrange(every)}"


def _pairs(column: str, dice: random.Random) -> str:
    """Some neighbours: an even number and the next one."""
    every = dice.choice(_EVERY)
    return f"{column} BETWEEN 2 AND {PARKING - 1} AND {column} / 2 % {every} = {dice.randrange(every)}"


def _positive(table: Table) -> str:
    return f"abs({table.number})"


def _salt(dice: random.Random) -> int:
    return dice.randrange(10**6)
