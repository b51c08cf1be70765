"""The scan of a connection's bytes when they are damaged: refused or left, never read past their end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.source.pgoutput.guarded import run_alone

if TYPE_CHECKING:
    from pathlib import Path

STREAMS = 3000


@pytest.mark.parametrize("seed", ["1", "2"])
def test_mutated_bytes_are_refused_or_left(seed: str) -> None:
    """Damaged streams beside forbidden memory, whole and in pieces: no crash, no hang, only true frames."""
    done = run_alone("tests.changelog.guarded_scan", seed, str(STREAMS))
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) == STREAMS
    assert outcomes.keys() == {"refused", "other", "rest"}
    assert min(outcomes.values()) > STREAMS // 20, outcomes


def test_mutated_bytes_stay_in_bounds_of_every_array(tmp_path: Path) -> None:
    """The same with numba's own bounds checks, which watch the frames and records too."""
    done = run_alone(
        "tests.changelog.guarded_scan", "3", "500", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
