"""Transactions that change the schema at the same time: none waits for another, and no change gets lost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.fix_pg import Database, create_database, drop_database
from tests.schema_changes.beside import AFTER_ONE, BEFORE, PAIRS, Beside
from tests.schema_changes.test_postgres_target import Pair, dump, rows, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.embedded import EmbeddedPostgres

MOST_SECONDS = 1.0
PREFIX = "c_"


@dataclass(frozen=True, slots=True)
class Case:
    """A pair, and which of the two is inside of the other: begun after it, and committed before it."""

    number: int
    beside: Beside
    two_begins: bool = False
    isolation: str | None = None  # of the second, which is after the first one then

    @property
    def schema(self) -> str:
        """The schema of its own."""
        return f"{PREFIX}{self.number}"

    def __str__(self) -> str:
        if self.isolation:
            return f"{self.beside.name}, {self.isolation}"
        return f"{self.beside.name}, {'one inside of two' if self.two_begins else 'two inside of one'}"


CASES = [
    *(Case(number, *each) for number, each in enumerate(product(PAIRS, (False, True)), 100)),
    *(
        Case(number, beside, isolation=isolation)
        for number, (beside, isolation) in enumerate(
            product(AFTER_ONE, ("REPEATABLE READ", "SERIALIZABLE")), 200
        )
    ),
]


def change_at_once(database: Database, case: Case) -> float:
    """Both transactions, one inside of the other; gives the seconds of the one inside."""
    texts = [each.replace("{s}", case.schema) for each in (case.beside.one, case.beside.two)]
    outer, inner = reversed(texts) if case.two_begins else texts
    with psycopg.connect(database.url) as begun, database.connect() as later:
        later.execute(
            f"BEGIN ISOLATION LEVEL {case.isolation or 'READ COMMITTED'}; SET LOCAL lock_timeout = '5s'"
        )
        later.execute("SELECT count(*) FROM pg_class")
        begun.execute(outer.encode())
        if case.isolation:
            begun.commit()
        started = time.monotonic()
        later.execute(inner.encode())
        seconds = time.monotonic() - started
        later.commit()
        begun.commit()
    database.run("; ".join(case.beside.then).replace("{s}", case.schema))
    return seconds


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of all cases."""

    pair: Pair
    seconds: dict[int, float]
    dumps: tuple[list[str], list[str]]


@pytest.fixture(scope="module", params=["pg15", "pg18"])
def changed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changed]:
    """All cases, made on a source while its pipeline was down, and applied in one run."""
    server: EmbeddedPostgres = request.getfixturevalue(request.param)
    pair = Pair(create_database(server), create_database(server))
    place = tmp_path_factory.mktemp("state")
    for case in CASES:
        pair.source.run("; ".join((*BEFORE, *case.beside.before)).replace("{s}", case.schema))
    run(pair, place)
    seconds = {case.number: change_at_once(pair.source, case) for case in CASES}
    run(pair, place)
    yield Changed(pair, seconds, (dump(pair.source, PREFIX), dump(pair.target, PREFIX)))
    drop_database(pair.source)
    drop_database(pair.target)


def test_nothing_is_left_unread(changed: Changed) -> None:
    """No change is one that the triggers could not read."""
    assert (
        changed.pair.source.rows(
            "SELECT tag, statement, problem FROM pgsluice.schema_log WHERE problem IS NOT NULL"
        )
        == []
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_beside_another(changed: Changed, case: Case) -> None:
    """The second statement did not wait, and the target has both changes."""
    assert changed.seconds[case.number] < MOST_SECONDS
    wanted, got = ([each for each in side if case.schema in each] for side in changed.dumps)
    assert wanted
    assert got == wanted
    held = rows(changed.pair.source, case.schema)
    assert rows(changed.pair.target, case.schema) == held
