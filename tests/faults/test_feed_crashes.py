"""A run into files that is killed at named places and at random moments: each change is there once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.faults.feeds import FeedRunner
from tests.faults.running import Traffic, kill_at_random

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

pytestmark = pytest.mark.timeout(900)  # processes are started dozens of times

PLACES = ["sink.before_commit", "sink.after_commit", "files.revealing", "loop.before_release"]


@pytest.fixture
def runner(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[FeedRunner]:
    """A prepared pipeline of the shop."""
    made = FeedRunner(database.url, tmp_path, format_=getattr(request, "param", "parquet"))
    made.prepare()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("runner", "place", "kills"),
    # Lines are made by Spark, which each run of theirs has to start.
    [*(("parquet", place, 2) for place in PLACES), ("jsonl", "sink.after_commit", 1)],
    indirect=["runner"],
)
def test_a_driver_that_dies_there_goes_on(
    runner: FeedRunner, database: Database, place: str, kills: int
) -> None:
    """The run is killed at a named place; the next one neither loses nor doubles a change."""
    with Traffic(database.url, random.randrange(10**6)):
        for _ in range(kills):
            runner.start({"PGSLUICE_FAILPOINT": f"{place}:4"})
            assert runner.wait_for_death(timeout=300) == -9
    assert runner.compare() > 200


def test_twelve_random_kills(runner: FeedRunner, database: Database) -> None:
    """Listener or driver, whenever: twelve times under traffic."""
    seed = random.randrange(10**6)
    print(f"kill seed {seed}")
    with Traffic(database.url, seed):
        kill_at_random(runner, 12, random.Random(seed), drivers=0.7)
    assert runner.compare() > 200
