"""Programs that write batches to a sink in a process of their own, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from pgsluice.observability.failpoints import VARIABLE

if TYPE_CHECKING:
    from pathlib import Path


def run_writer(
    program: str, path: Path, batches: int, failpoint: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a writer up to so many batches in all, or until it dies at a failpoint."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if failpoint is not None:
        environment[VARIABLE] = failpoint
    return subprocess.run(
        [sys.executable, "-c", program, str(path), str(batches)],
        env=environment, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
