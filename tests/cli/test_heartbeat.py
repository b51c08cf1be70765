"""``heartbeat_interval`` of a configuration file, all the way to messages in the source's WAL."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


def test_a_silent_source_is_written_to_when_asked(database: Database, tmp_path: Path) -> None:
    """The heartbeats of the listener that a run starts come back in its log; by default there are none."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)")
    config = tmp_path / "config.yaml"
    config.write_text("source: {postgres: {replication: {heartbeat_interval: 100ms}}}\n")
    command = [*to_duckdb(tmp_path, database.url), "-c", str(config)]
    process = subprocess.Popen([sys.executable, "-m", "pgsluice.cli.main", *command])
    try:
        deadline = time.monotonic() + 120
        while beats(tmp_path / "state" / "log") < 3:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.terminate()
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()


def beats(log: Path) -> int:
    """How many heartbeats a log holds."""
    files = (path for path in log.rglob("*") if path.is_file())
    return sum(path.read_bytes().count(b"pgsluice.heartbeat") for path in files)
