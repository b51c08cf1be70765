"""Signals to a real ``pgsluice run``: the first finishes the running batch, the second ends at once."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import psutil
import pytest

from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fix_pg import Database

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = [signal.SIGINT, signal.SIGTERM]


class HeldRun:
    """A run in the middle of a batch, and its child processes."""

    def __init__(self, database: Database, place: Path) -> None:
        self.place = place
        self.target = place / "x.duckdb"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.cli.held_run",
                str(place),
                *to_duckdb(place, database.url),
                "--mode",
                "replication",
            ],
            cwd=ROOT,
        )
        self._wait_for(lambda: list((place / "state" / "log" / "consumers").glob("*.json")))
        database.run("INSERT INTO item VALUES (1)")
        self._wait_for((place / "held").exists)
        self.children = psutil.Process(self.process.pid).children(recursive=True)
        assert len(self.children) == 1  # the listener

    def _wait_for(self, there) -> None:
        deadline = time.monotonic() + 120
        while not there():
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        """A signal to the run alone."""
        self.process.send_signal(number)

    def require_no_child(self) -> None:
        """Every process that the run had started ends, without being told again."""
        assert psutil.wait_procs(self.children, 120)[1] == []

    def close(self) -> None:
        """End what a failed test left."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def held(database: Database, tmp_path: Path) -> Iterator[HeldRun]:
    """A run that is writing a batch, and can't finish it until the test says so."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)")
    run = HeldRun(database, tmp_path)
    yield run
    run.close()


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_finishes_the_running_batch(held: HeldRun, number: signal.Signals) -> None:
    """It waits for the batch however long that takes; then exit code 0, its rows are there, no child left."""
    held.send(number)
    with pytest.raises(subprocess.TimeoutExpired):
        held.process.wait(1)
    (held.place / "go").touch()
    assert held.process.wait(120) == 0
    held.require_no_child()
    with duckdb.connect(str(held.target)) as target:
        assert target.execute("FROM public.item").fetchall() == [(1,)]


@pytest.mark.parametrize("number", SIGNALS)
def test_the_second_signal_ends_at_once(held: HeldRun, number: signal.Signals) -> None:
    """Although the batch still hangs: 128 + its number, no child left, and nothing half-written."""
    deadline = time.monotonic() + 120
    while held.process.poll() is None:  # the system may make one of two signals that come close together
        assert time.monotonic() < deadline
        held.send(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            held.process.wait(0.5)
    assert held.process.returncode == 128 + number
    held.require_no_child()
    with duckdb.connect(str(held.target)) as target:
        found = target.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'public'")
        assert found.fetchall() == []
