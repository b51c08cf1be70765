"""
Traffic, random kills, cuts and restarts for a long time, compared again and again.

    PGSLUICE_SOAK_SECONDS=3600 make soak
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.running import Runner, Traffic

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy

SECONDS = int(os.environ.get("PGSLUICE_SOAK_SECONDS", "600"))


@pytest.mark.timeout(SECONDS * 2 + 600)
def test_a_long_day(database: Database, proxy: DatabaseProxy, tmp_path: Path) -> None:
    """Whatever happens, after every round source and target are equal."""
    seed = random.randrange(10**6)
    print(f"soak seed {seed}, {SECONDS} s")
    rng = random.Random(seed)
    runner = Runner(proxy.url, tmp_path, admin_url=database.url)
    runner.prepare()
    deadline = time.monotonic() + SECONDS
    rounds = compared = 0
    events = {"driver": 0, "listener": 0, "cut": 0}
    try:
        while time.monotonic() < deadline:
            with Traffic(database.url, seed + rounds, fill=rounds == 0):
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
