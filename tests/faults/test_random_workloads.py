"""Random tables and transactions, and kills on the way: at every moment the target is the source of then."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.fix_pg import create_database, drop_database
from tests.workload.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from pgsluice.pipeline.config.targets import Decode
    from tests.fix_proof import Proof

CHANGES = 67_000  # of each seed: 200,000 of all


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("source", "target", "with_duckdb", "kills"),
    [
        (15, 18, False, {"driver": 2, "listener": 2, "worker": 3}),
        (18, 15, True, {"driver": 4, "listener": 3}),  # as it is by default: decoded by the driver
        (15, 15, False, {"driver": 2, "listener": 2, "worker": 2}),
    ],
)
def test_a_random_workload(
    source: int,
    target: int,
    with_duckdb: bool,
    kills: dict[str, int],
    request: pytest.FixtureRequest,
    crashable: Callable[[int], EmbeddedPostgres],
    tmp_path: Path,
    proof: Proof,
) -> None:
    """
    After each round source and target are equal row by row, and no reader saw half a transaction.

    ``PGSLUICE_SEED=…`` makes the tables and transactions of a run that failed once more.
    """
    seed = int(os.environ.get("PGSLUICE_SEED", random.randrange(10**6)))
    here = create_database(request.getfixturevalue(f"pg{source}"))
    try:
        there = create_database(crashable(target))
        decode: Decode = "tasks" if "worker" in kills else "auto"
        with Trial(seed, here, there, tmp_path, with_duckdb=with_duckdb, decode=decode) as trial:
            events = trial.plan(**kills, restart=1, crash=1, large=0 if "worker" in kills else 2)
            half = len(events) // 2
            for some in (events[:half], events[half:]):
                trial.round(some, CHANGES // 2 + 1)
            trial.stop()
    finally:
        drop_database(here)
    proof(trial.summary())
    assert trial.kills == sum(kills.values())
    assert trial.writers.tally.changes >= CHANGES
    assert trial.watcher.looks > 0
