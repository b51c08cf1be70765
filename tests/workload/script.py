"""The transactions of a writer: endless, and the same ones for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.workload import acts, invariant
from tests.workload.acts import Lane
from tests.workload.shapes import Table, all_shapes
from tests.workload.values import PREPARE, large_text, usable_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LENGTHS = (1, 1, 1, 2, 2, 3, 6)  # acts of a transaction
_PAUSES = (0.01, 0.01, 0.1, 0.3, 1.0)  # seconds, inside of a transaction
_ROWS = 300  # of each table before anything is copied
_LARGE_ROWS = 12  # of 1 MiB


@dataclass(frozen=True, slots=True)
class World:
    """The tables of one seed."""

    seed: int
    prepare: tuple[str, ...]  # statements that make and fill them
    tables: tuple[Table, ...]  # that acts write to


def make_world(
    seed: int,
    *,
    extensions: Sequence[str] = (),
    virtual: bool = False,
    for_duckdb: bool = False,
) -> World:
    """
    Tables for a seed.

    Args:
        extensions: that source and target have.
        virtual: whether both know virtual generated columns.
        for_duckdb: without what DuckDB can't hold: a few values, and tables without columns.
    """
    dice = random.Random(seed)
    kinds = usable_kinds(extensions, for_duckdb=for_duckdb)
    tables = all_shapes(dice, kinds, virtual=virtual, without_columns=not for_duckdb)
    lane = Lane(9)
    prepare = [f"CREATE EXTENSION {name}" for name in extensions]
    prepare += [*PREPARE, "CREATE SCHEMA s"]
    prepare += [statement for table in tables for statement in table.make]
    prepare += invariant.MAKE
    prepare += [
        statement for table in tables if table.number for statement in acts.insert(table, dice, lane, _ROWS)
    ]
    if dice.random() < 0.5:
        prepare.append(large_rows(lane))
    return World(seed, tuple(prepare), tuple(table for table in tables if acts.acts_of(table)))


def large_rows(lane: Lane) -> str:
    """So many bytes that Spark is worth starting, or that they are written before all of them are there."""
    first, last = lane.take(_LARGE_ROWS)
    return (
        f"INSERT INTO s.documents (id, body) SELECT g, {large_text('g', 0)}"
        f" FROM generate_series({first}, {last}) AS g ON CONFLICT DO NOTHING"  # writers move rows here too
    )


def transactions(world: World, writer: int) -> Iterator[list[str]]:
    """What a writer does, transaction by transaction; the writers are numbered from 1."""
    dice = random.Random(f"{world.seed} {writer}")
    lane = Lane(writer)
    while True:
        if dice.random() < 0.01:
            yield [f"VACUUM FULL {dice.choice(world.tables).name}"]
        else:
            yield _transaction(world, dice, lane)


def _transaction(world: World, dice: random.Random, lane: Lane) -> list[str]:
    before, after = invariant.transfer(dice, lane) if dice.random() < 0.6 else ([], [])
    statements = ["BEGIN", *before]
    # In one order, so that writers wait for each other more often than in a circle.
    chosen = sorted(dice.choices(range(len(world.tables)), k=dice.choice(_LENGTHS)))
    for place in chosen:
        statements += _piece(world, world.tables[place], dice, lane)
        if dice.random() < 0.1:
            statements.append(f"SELECT pg_sleep({dice.choice(_PAUSES)})")
    if dice.random() < 0.05:
        transactional = dice.choice(("true", "false"))
        statements.append(f"SELECT pg_logical_emit_message({transactional}, 'said', 'by the way')")
    return [*statements, *after, *_ending(dice, lane)]


def _piece(world: World, table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """An act, for good or taken back."""
    found = _act(world, table, dice, lane)
    taken_back = dice.random()
    if taken_back < 0.1:
        return ["SAVEPOINT a", *found, "ROLLBACK TO a"]
    if taken_back < 0.15:
        other = _act(world, table, dice, lane)
        return ["SAVEPOINT a", *found, "SAVEPOINT b", *other, "ROLLBACK TO b", "RELEASE a"]
    return found


def _act(world: World, table: Table, dice: random.Random, lane: Lane) -> list[str]:
    if table.truncates and dice.random() < 0.03:
        return _truncate(world, table, dice, lane)
    possible = acts.acts_of(table)
    act = dice.choices([act for act, _ in possible], [weight for _, weight in possible])[0]
    return act(table, dice, lane)


def _truncate(world: World, table: Table, dice: random.Random, lane: Lane) -> list[str]:
    """One table or several at once, perhaps filled again in the same transaction."""
    statement = acts.truncate(table, dice)
    others = [other for other in world.tables if other.number and not other.inserts_from]
    if "CASCADE" not in statement and "RESTART" not in statement and dice.random() < 0.3:
        more = dice.choice([other for other in others if len(other.truncates) == 1])
        statement += ", " + more.name
    again = acts.insert(table, dice, lane) if table in others and dice.random() < 0.5 else []
    return [statement, *again]


def prepared_name(writer: int) -> str:
    """What a writer calls the transactions that it prepares."""
    return f"writer {writer}"


def _ending(dice: random.Random, lane: Lane) -> list[str]:
    kind = dice.random()
    if kind < 0.05:
        return ["ROLLBACK"]
    if kind < 0.1:
        name = prepared_name(lane.number)
        return [f"PREPARE TRANSACTION '{name}'", f"COMMIT PREPARED '{name}'"]
    return ["COMMIT"]
