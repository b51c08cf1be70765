"""
The tests that take as long as they are given: kills, cuts and restarts, compared again and again.

    make soak MINUTES=60
"""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.running import BUSY, Runner, Traffic
from tests.fix_pg import create_database, drop_database
from tests.schema_changes.random_trial import change_and_compare
from tests.workload.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from pgsluice.pipeline.config.targets import Decode
    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy

MINUTES = float(os.environ.get("PGSLUICE_SOAK_MINUTES", "10"))
SHOP_SECONDS = MINUTES * 15  # a quarter
CHANGES_SECONDS = MINUTES * 15  # of the schema: another one; the random workloads have the rest
WORKLOAD_SECONDS = MINUTES * 30
SLACK = 900  # for what is begun when the time is over

ROUNDS = 4  # of one seed
CHANGES = 40_000  # of one round
CHANGES_KILLS = 6  # of one seed
EVENTS = {"driver": 2, "listener": 2, "restart": 1, "crash": 1, "source_crash": 1}


@pytest.mark.timeout(SHOP_SECONDS + SLACK)
def test_a_long_day(database: Database, proxy: DatabaseProxy, tmp_path: Path) -> None:
    """Whatever happens to the shop, after every round source and target are equal."""
    seed = random.randrange(10**6)
    print(f"soak seed {seed}, {SHOP_SECONDS} s")
    rng = random.Random(seed)
    runner = Runner(proxy.url, tmp_path, admin_url=database.url)
    runner.prepare()
    deadline = time.monotonic() + SHOP_SECONDS
    rounds = compared = 0
    events = {"driver": 0, "listener": 0, "cut": 0}
    try:
        while time.monotonic() < deadline:
            with Traffic(database.url, seed + rounds, fill=rounds == 0, pause=BUSY):
                for _ in range(10):
                    if runner.process is None or runner.process.poll() is not None:
                        runner.start()
                    runner.wait_for_changes()
                    event = rng.choice(list(events))
                    events[event] += 1
                    if event == "driver":
                        runner.kill_driver()
                    elif event == "listener":
                        runner.kill_listener()
                    else:
                        proxy.cut_after(rng.randrange(1, 100_000))
                    time.sleep(rng.random())
            runner.close()
            compared += runner.compare()
            rounds += 1
    finally:
        runner.close()
    print(f"{rounds} rounds, {events}, {compared} rows compared")
    assert compared > 0


@pytest.mark.timeout(WORKLOAD_SECONDS + SLACK)
def test_random_workloads(
    crashable: Callable[[int], EmbeddedPostgres], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Seed after seed, in every pair of versions, with crashes of the source too: source and target are equal.

    ``PGSLUICE_SEED=…`` says which seed is the first.
    """
    first = int(os.environ.get("PGSLUICE_SEED", random.randrange(10**6)))
    servers = {(version, end): crashable(version) for version in (15, 18) for end in ("source", "target")}
    deadline = time.monotonic() + WORKLOAD_SECONDS
    changes = 0
    for seed in itertools.count(first):
        dice = random.Random(seed)
        source = create_database(servers[dice.choice((15, 18)), "source"])
        target = create_database(servers[dice.choice((15, 18)), "target"])
        place = tmp_path / str(seed)
        place.mkdir()
        decode: Decode = dice.choice(("tasks", "auto"))
        events = EVENTS | ({"worker": 1} if decode == "tasks" else {"large": 2})
        with_duckdb = dice.random() < 0.3
        with Trial(seed, source, target, place, with_duckdb=with_duckdb, decode=decode) as trial:
            for _ in range(ROUNDS):
                trial.round(trial.plan(**events), CHANGES)
            trial.stop()
        with capsys.disabled():
            print(f"\n{trial.summary()}", end="")
        drop_database(source)
        drop_database(target)
        changes += trial.writers.tally.changes
        if time.monotonic() > deadline:
            break
    assert changes >= CHANGES


@pytest.mark.timeout(CHANGES_SECONDS + SLACK)
def test_random_schema_changes(
    pg15: EmbeddedPostgres, pg18: EmbeddedPostgres, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seed after seed, on both versions: catalog and rows of the target are the source's."""
    first = int(os.environ.get("PGSLUICE_SEED", random.randrange(10**6)))
    deadline = time.monotonic() + CHANGES_SECONDS
    for seed in itertools.count(first):
        server = (pg15, pg18)[seed % 2]
        source, target = create_database(server), create_database(server)
        place = tmp_path / str(seed)
        place.mkdir()
        said = change_and_compare(seed, source, target, place, kills=CHANGES_KILLS)
        with capsys.disabled():
            print(f"\n{said}", end="")
        drop_database(source)
        drop_database(target)
        if time.monotonic() > deadline:
            break
