"""
Two tables whose amounts have one sum for ever, and a reader of the target who looks at it all the time.

A sum that is wrong for a moment is a transaction of the source that was half visible.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg

from pgsluice.changelog.position import Progress

if TYPE_CHECKING:
    import random

    from tests.workload.acts import Lane

TILL, SAFE = "s.till", "s.safe"
ANCHORS = 200  # rows of each that are always there
EACH = 1000  # amount of an anchor at first
SUM = 2 * ANCHORS * EACH

MAKE = (
    f"CREATE TABLE {TILL} (id bigint PRIMARY KEY, amount bigint NOT NULL)",
    f"CREATE TABLE {SAFE} (id bigint PRIMARY KEY, amount bigint NOT NULL) PARTITION BY HASH (id)",
    f"CREATE TABLE {SAFE}_0 PARTITION OF {SAFE} FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    f"CREATE TABLE {SAFE}_1 PARTITION OF {SAFE} FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    *(
        f"INSERT INTO {table} SELECT g, {EACH} FROM generate_series(1, {ANCHORS}) AS g"
        for table in (TILL, SAFE)
    ),
)

READ = f"SELECT (SELECT coalesce(sum(amount), 0) FROM {TILL}) + (SELECT coalesce(sum(amount), 0) FROM {SAFE})"


def transfer(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    """Statements for the beginning and for the end of one transaction, which keep the sum together."""
    kind = dice.choice((_pay, _pay_all, _spread, _gather, _carry, _renumber, _refill))
    first, then = kind(dice, lane)
    return first, then


def _pay(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    del lane
    amount = dice.randrange(1, 50)
    return [_add(TILL, -amount, _anchor(dice))], [_add(SAFE, amount, _anchor(dice))]


def _pay_all(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    del lane
    amount, anchors = dice.randrange(1, 5), f"BETWEEN 1 AND {ANCHORS}"
    return [_add(TILL, amount, anchors)], [_add(SAFE, -amount, anchors)]


def _spread(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    count = dice.choice((1, 20, 150))
    first, last = lane.take(count)
    rows = f"INSERT INTO {TILL} SELECT g, 5 FROM generate_series({first}, {last}) AS g"
    return [_add(SAFE, -5 * count, _anchor(dice))], [rows]


def _gather(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    del lane
    gone = f"DELETE FROM {dice.choice((TILL, SAFE))} WHERE {_some(dice)} RETURNING amount"
    put = f"amount + (SELECT coalesce(sum(amount), 0) FROM gone) WHERE id {_anchor(dice)}"
    return [f"WITH gone AS ({gone}) UPDATE {SAFE} SET amount = {put}"], []


def _carry(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    del lane
    here, there = dice.choice(((TILL, SAFE), (SAFE, TILL)))
    gone = f"DELETE FROM {here} WHERE {_some(dice)} RETURNING id, amount"
    return [f"WITH gone AS ({gone}) INSERT INTO {there} SELECT id, amount FROM gone"], []


def _renumber(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    del lane
    return [f"UPDATE {table} SET id = -id WHERE {_some(dice)}" for table in (TILL, SAFE)], []


def _refill(dice: random.Random, lane: Lane) -> tuple[list[str], list[str]]:
    """Empty a table and fill it again; rarer than the others, for it locks them all out."""
    if dice.random() < 0.7:
        return _pay(dice, lane)
    return [
        f"LOCK TABLE {TILL}, {SAFE} IN ACCESS EXCLUSIVE MODE",
        f"UPDATE {SAFE} SET amount = amount + (SELECT sum(amount) FROM {TILL}) WHERE id = 1",
        f"TRUNCATE {TILL}",
        f"INSERT INTO {TILL} SELECT g, {EACH} FROM generate_series(1, {ANCHORS}) AS g",
        _add(SAFE, -ANCHORS * EACH, "= 1"),
    ], []


def _add(table: str, amount: int, which: str) -> str:
    return f"UPDATE {table} SET amount = amount + ({amount}) WHERE id {which}"


def _anchor(dice: random.Random) -> str:
    return f"= {dice.randrange(1, ANCHORS + 1)}"


def _some(dice: random.Random) -> str:
    every = dice.choice((2, 10, 50))
    return f"abs(id) > {ANCHORS} AND abs(id) % {every} = {dice.randrange(every)}"


class Watcher:
    """Reads the sum in the target again and again, while a block runs."""

    def __init__(self, url: str, pipeline: str) -> None:
        self._url = url
        # One statement: it locks both tables before it takes its snapshot, so a TRUNCATE can't come between.
        self._query = f"SELECT ({READ}), token FROM pgsluice.progress WHERE pipeline = '{pipeline}'"
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.early = 0  # looks while tables were being copied, when anything may be seen
        self.looks = 0  # since then
        self.positions: set[str] = set()  # that were seen then
        self.wrong: list[str] = []

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ending.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True) as conn:
                    while not self._ending.wait(0.02):
                        self._look(conn)
            except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
                self._ending.wait(0.1)  # the target is being restarted, or has no tables yet

    def _look(self, conn: psycopg.Connection) -> None:
        row = conn.execute(self._query).fetchone()
        if row is None or row[1] is None:
            return
        progress = Progress.decode(row[1])
        copies = progress.copies
        if copies is None or not copies.finished or progress.end_lsn < max(copies.points):
            self.early += 1
            return
        self.looks += 1
        self.positions.add(str(progress.end_lsn))
        if row[0] != SUM:
            self.wrong.append(f"{row[0]} instead of {SUM} at {progress.end_lsn}")
