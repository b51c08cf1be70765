"""
``pgsluice`` whose DuckDB sink holds each batch until the test lets it go, as a target that hangs would.

    python -m tests.cli.held_run DIRECTORY run ...

The file ``held`` in the directory says that a batch is being written; it goes on when ``go`` is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice import DuckDBSink
from pgsluice.cli.main import main

if TYPE_CHECKING:
    from pgsluice.sinks.base import Batch

directory = Path(sys.argv[1])
write = DuckDBSink.apply


def apply(sink: DuckDBSink, batch: Batch) -> None:
    """Wait for the test, then write."""
    (directory / "held").touch()
    while not (directory / "go").exists():
        time.sleep(0.02)
    write(sink, batch)


DuckDBSink.apply = apply  # type: ignore[method-assign]
sys.exit(main(sys.argv[2:]))
