"""Killed at every named place and at random moments: nothing is lost, doubled or reordered."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.running import Runner, Traffic, kill_at_random

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proof import Proof

pytestmark = pytest.mark.timeout(900)  # processes are started dozens of times

LISTENER = [
    "log.before_data_sync",
    "log.after_data_sync",
    "log.before_index_sync",
    "log.after_index_sync",
    "listener.before_confirm",
    "listener.after_confirm",
]
DRIVER = ["sink.before_commit", "sink.after_commit", "loop.before_release", "loop.after_release"]


@pytest.fixture
def runner(database: Database, tmp_path: Path) -> Iterator[Runner]:
    """A prepared pipeline of the shop."""
    made = Runner(database.url, tmp_path)
    made.prepare()
    yield made
    made.close()


@pytest.mark.parametrize("place", LISTENER)
def test_a_listener_that_dies_there_comes_back(runner: Runner, database: Database, place: str) -> None:
    """The listener is killed at a named place again and again while the driver lives on."""
    with Traffic(database.url, random.randrange(10**6)):
        runner.start({"PGSLUICE_FAILPOINT": f"{place}:7"})
        runner.wait_for_changes()
        deadline = time.monotonic() + 120
        while runner.tail().count("listener ended") < 2:
            assert time.monotonic() < deadline, runner.tail()
            time.sleep(0.1)
    assert runner.stop() == 0
    assert runner.compare() > 200


@pytest.mark.parametrize("place", DRIVER)
def test_a_driver_that_dies_there_goes_on(runner: Runner, database: Database, place: str) -> None:
    """The run is killed at a named place; the next one neither loses nor doubles a row."""
    with Traffic(database.url, random.randrange(10**6)):
        for _ in range(2):
            runner.start({"PGSLUICE_FAILPOINT": f"{place}:5"})
            assert runner.wait_for_death() == -9
    assert runner.compare() > 200


def test_thirty_random_kills(runner: Runner, database: Database, proof: Proof) -> None:
    """Listener or driver, whenever: thirty times under traffic."""
    seed = random.randrange(10**6)
    print(f"kill seed {seed}")
    with Traffic(database.url, seed):
        kill_at_random(runner, 30, random.Random(seed), drivers=0.5)
    compared = runner.compare()
    assert compared > 200
    proof(f"seed {seed}: 30 kills, compared {compared} rows: equal")
