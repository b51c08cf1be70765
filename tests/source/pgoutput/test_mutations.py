"""Damaged logs: refused by both decoders or read the same by both, and never read past their end."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.source.pgoutput.guarded import run_alone

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

MUTATIONS = 3000


def run_guarded(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the guarded comparison in a process of its own."""
    return run_alone("tests.source.pgoutput.guarded", *arguments, **environment)


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_mutated_frames_are_refused_or_read_the_same(seed: str) -> None:
    """Thousands of damaged logs beside forbidden memory: no crash, and both decoders agree."""
    done = run_guarded(seed, str(MUTATIONS))
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) == 2 * MUTATIONS  # each with and without an open transaction
    assert min(outcomes.values()) > MUTATIONS // 20, outcomes


def test_every_message_damaged_at_every_byte() -> None:
    """Each kind of message, cut or changed at each byte, as the last before the forbidden memory."""
    done = run_guarded("each")
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert min(outcomes.values()) > 100, outcomes


def test_mutated_frames_stay_in_bounds_of_every_array(tmp_path: Path) -> None:
    """The same with numba's own bounds checks, which watch the output's arrays too."""
    done = run_guarded("4", "1000", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_the_guard_notices_a_read_past_the_end() -> None:
    """One byte too far kills the guarded process: the tests above can fail."""
    assert run_guarded("overread").returncode == -signal.SIGSEGV
