"""The generator itself: it repeats itself when told to, servers take what it says, and the sum stays."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pgsluice.changelog.position import Copies, Lsn, Progress
from tests.source.listening import wait_until
from tests.workload import invariant
from tests.workload.compare import require_equal
from tests.workload.invariant import READ, SUM, Watcher
from tests.workload.script import make_world, transactions
from tests.workload.writers import WRITERS, Writers

if TYPE_CHECKING:
    from tests.fix_pg import Database


def some(seed: int, writer: int = 1) -> list[list[str]]:
    """The first transactions of a writer."""
    return list(itertools.islice(transactions(make_world(seed), writer), 200))


def test_the_same_seed_is_the_same_workload() -> None:
    """Tables and statements follow from the seed alone, and differ from seed to seed and writer to writer."""
    seed = random.randrange(10**6)
    assert make_world(seed) == make_world(seed) != make_world(seed + 1)
    for writer in range(1, WRITERS + 1):
        assert some(seed, writer) == some(seed, writer)
    assert some(seed) != some(seed + 1)
    assert some(seed, 1) != some(seed, 2)


@pytest.mark.parametrize(
    "wanted",
    [
        "TRUNCATE",
        "ROLLBACK TO",
        "PREPARE TRANSACTION",
        "pg_sleep",
        "VACUUM FULL",
        "SET id = -id",
        "emit_message",
    ],
)
def test_every_kind_of_statement_comes(wanted: str) -> None:
    """None of them is left to luck."""
    found = [statement for each in some(1) + some(2) + some(3) for statement in each if wanted in statement]
    assert found


@pytest.mark.both_versions
def test_a_server_takes_what_it_says(database: Database) -> None:
    """Every table is made and written to, most transactions are committed, and the sum is what it was."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    world = make_world(seed)
    database.run(*world.prepare)
    with Writers(database.url, world) as writers:
        writers.go_on(10_000)
        writers.wait()
    tally = writers.tally
    print(tally)
    assert tally.changes >= 10_000
    assert tally.refused < tally.transactions / 4
    assert database.rows(READ) == [(SUM,)]


def test_a_sum_that_is_wrong_for_a_moment_is_seen(database: Database) -> None:
    """The reader looks at the sum as soon as the copy is finished, and not before."""
    database.run(
        "CREATE SCHEMA s",
        *invariant.MAKE,
        "CREATE SCHEMA pgsluice",
        "CREATE TABLE pgsluice.progress (pipeline text, token text)",
        "INSERT INTO pgsluice.progress VALUES ('p', NULL)",
        f"UPDATE {invariant.TILL} SET amount = 0",
    )
    copied = Progress("1", 1, Lsn(7), Copies({Lsn(5): (1,)}, finished=True))
    with Watcher(database.url, "p") as watcher:
        for early in (replace(copied, copies=Copies({Lsn(5): (1,)})), replace(copied, end_lsn=Lsn(4))):
            database.run(f"UPDATE pgsluice.progress SET token = '{early.encode()}'")
        wait_until(lambda: watcher.early > 1)
        assert not watcher.wrong
        database.run(f"UPDATE pgsluice.progress SET token = '{copied.encode()}'")
        wait_until(lambda: watcher.wrong)
    assert watcher.looks == len(watcher.wrong)
    assert watcher.wrong[0].startswith(f"{SUM // 2} instead of {SUM}")


def test_rows_that_differ_are_shown() -> None:
    """One row too few, or one of two equal ones, is found and named."""
    require_equal("t", Counter([b"a", b"b", b"b"]), Counter([b"b", b"a", b"b"]))
    with pytest.raises(AssertionError, match="t, 3 rows in the source: 1 missing, such as b'b'"):
        require_equal("t", Counter([b"a", b"b", b"b"]), Counter([b"a", b"b"]))
    with pytest.raises(AssertionError, match="1 too many, such as b'a'"):
        require_equal("t", Counter([b"a"]), Counter([b"a", b"a"]))
