"""The compiled passes and their cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_WARM = """
import resource, sys, time
from pgsluice.source.pgoutput.decode import warm
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
start = time.perf_counter()
warm()
print(time.perf_counter() - start)
"""


def warm_up(largest_file: int = 0, **environment: str) -> float:
    """Warm up in a process of its own; the seconds that it took."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _WARM, str(largest_file)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_the_cache_spares_compiling_and_may_be_damaged(tmp_path: Path) -> None:
    """A second process loads what the first compiled; one that finds rubbish compiles again."""
    compiling = warm_up(NUMBA_CACHE_DIR=str(tmp_path))
    loading = warm_up(NUMBA_CACHE_DIR=str(tmp_path))
    assert loading < compiling / 3
    files = [path for path in tmp_path.rglob("*.nb?") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(b"rubbish")
    assert warm_up(NUMBA_CACHE_DIR=str(tmp_path)) > loading


@pytest.mark.parametrize("largest_file", [0, 100], ids=["nowhere to write", "disk full"])
def test_a_cache_that_cannot_be_written_is_not_fatal(largest_file: int, tmp_path: Path) -> None:
    """Without a directory for the cache, or room in it, the passes are compiled in memory."""
    blocked = tmp_path / "file"
    blocked.touch()
    directory = tmp_path if largest_file else blocked / "below a file"
    warm_up(
        largest_file,
        NUMBA_CACHE_DIR=str(directory),
        NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator",
    )
