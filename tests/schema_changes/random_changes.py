"""Random schema changes and rows in random transactions: the same ones for the same seed."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import psycopg

from tests.schema_changes.random_statements import (
    KINDS,
    change_view,
    create_composite,
    create_domain,
    create_enum,
    create_function,
    create_heir,
    create_index,
    create_keyless,
    create_partitioned,
    create_table,
    create_view,
)
from tests.schema_changes.random_world import World

if TYPE_CHECKING:
    from tests.schema_changes.random_statements import Kind

_LENGTHS = (1, 1, 2, 3, 6)  # statements of a transaction
_START = (
    *(create_enum, create_domain, create_composite),
    *[create_table] * 8,
    *[create_keyless, create_partitioned, create_heir] * 2,
    *(create_view, create_index, create_function),
)
"""What is there before. No partitioned table without partitions: the first copy leaves such ones out."""


class RandomChanges:
    """
    The only writer of a database.

    Args:
        seed: of all that is done; only what a run of the pipeline makes of it is the machine's.
    """

    def __init__(self, seed: int, url: str) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.made: Counter[str] = Counter()  # statements that were committed, by kind
        self.refused = 0
        self.statements: list[str] = []  # as they were sent
        self._conn = psycopg.connect(url, autocommit=True)
        self._world = World(self._conn, self.dice)
        self._forms = (
            self._alone,
            self._alone,
            self._transaction,
            self._savepoints,
            self._block,
            self._query,
        )

    def close(self) -> None:
        """End the connection."""
        self._conn.close()

    def prepare(self) -> None:
        """What is there before the first copy."""
        for schema in ("s_main", 's_Ö "2"', "s_3"):
            self._conn.execute('CREATE SCHEMA "' + schema.replace('"', '""') + '"')
        for kind in _START:
            statement = kind(self._world)
            if statement:
                self._try([(kind, statement)], statement)

    def go_on(self, transactions: int, *, pause: float = 0.0) -> None:
        """Make so many transactions, with a pause of so many seconds after each."""
        for _ in range(transactions):
            self.dice.choice(self._forms)()
            time.sleep(pause)

    def refresh_views(self) -> None:
        """Fill all materialized views: one that waited for a table is newer in the target than here."""
        for (name,) in self._conn.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'm' ORDER BY oid"
        ).fetchall():
            self._try([(change_view, name)], f"REFRESH MATERIALIZED VIEW {name}")

    def summary(self) -> str:
        """What was done."""
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.made.items()))
        return f"{self.made.total()} statements ({self.refused} refused by the source): {kinds}"

    def _length(self) -> int:
        return self.dice.choice(_LENGTHS)

    def _draw(self) -> tuple[Kind, str]:
        """A statement that has something to be about."""
        while True:
            kind = self.dice.choices(list(KINDS), list(KINDS.values()))[0]
            statement = kind(self._world)
            if statement:
                return kind, statement

    def _send(self, statement: str) -> None:
        self.statements.append(statement)
        self._conn.execute(statement.encode())

    def _finish(self, kinds: list[Kind]) -> None:
        self.made.update(kind.__name__ for kind in kinds)

    def _alone(self) -> None:
        """One statement."""
        kind, statement = self._draw()
        self._try([(kind, statement)], statement)

    def _block(self) -> None:
        """Several in a DO block."""
        drawn = [self._draw() for _ in range(self._length())]
        self._try(drawn, f"DO $do$ BEGIN {'; '.join(text for _, text in drawn)}; END $do$")

    def _query(self) -> None:
        """Several in one query."""
        drawn = [self._draw() for _ in range(self._length())]
        self._try(drawn, "; ".join(text for _, text in drawn))

    def _try(self, drawn: list[tuple[Kind, str]], query: str) -> None:
        try:
            self._send(query)
        except psycopg.Error:
            self._refuse()
        else:
            self._finish([kind for kind, _ in drawn])

    def _refuse(self) -> None:
        self.refused += 1
        self.statements.append("-- refused")

    def _transaction(self) -> None:
        """Several statements; all or nothing, and sometimes nothing for no reason."""
        kinds = []
        try:
            with self._conn.transaction() as block:
                self.statements.append("BEGIN")
                for _ in range(self._length()):
                    kind, statement = self._draw()
                    self._send(statement)
                    kinds.append(kind)
                if self.dice.random() < 0.1:
                    raise psycopg.Rollback(block)
        except psycopg.Error:
            self._refuse()
            return
        self.statements.append("END")
        self._finish(kinds)

    def _savepoints(self) -> None:
        """Several statements, of which some are taken back."""
        kinds = []
        try:
            with self._conn.transaction():
                self.statements.append("BEGIN")
                for _ in range(self._length()):
                    kind, statement = self._draw()
                    self.statements.append("SAVEPOINT p")
                    if self._keeps(statement):
                        kinds.append(kind)
        except psycopg.Error:  # what is checked at the end
            self._refuse()
            return
        self.statements.append("COMMIT")
        self._finish(kinds)

    def _keeps(self, statement: str) -> bool:
        """Whether a statement of a savepoint stays."""
        kept = self.dice.random() < 0.75
        try:
            with self._conn.transaction() as block:
                self._send(statement)
                if not kept:
                    self.statements.append("ROLLBACK TO p")
                    raise psycopg.Rollback(block)
        except psycopg.Error:
            self._refuse()
            self.statements.append("ROLLBACK TO p")
            return False
        return kept
