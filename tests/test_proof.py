"""The lines that tests leave for the end of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTING = """
import pytest

@pytest.mark.parametrize("seed", [1, 2])
def test_it(proof, seed):
    proof(f"seed {seed}: all is equal")
    assert seed == 1
"""


def test_lines_of_workers_are_shown(tmp_path: Path) -> None:
    """Workers have no terminal: what they prove is shown by the process that started them, fail or pass."""
    (tmp_path / "test_noting.py").write_text(NOTING)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tests.fix_proof", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    shown = done.stdout.partition("what was proved")[2].splitlines()
    assert shown[1:3] == [f"test_noting.py::test_it[{seed}]: seed {seed}: all is equal" for seed in (1, 2)]
