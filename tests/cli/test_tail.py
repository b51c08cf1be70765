"""``pgsluice tail`` as a process: what it shows, what it leaves behind, and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import duckdb
import psycopg
import pytest

from pgsluice.cli.main import main
from tests.faults.running import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_pg import Database

PUBLICATIONS = "SELECT count(*) FROM pg_publication WHERE pubname LIKE 'pgsluice_tail_%'"
SLOTS = (
    "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'pgsluice_tail_%'"
    " AND database = current_database()"
)
STREAMING = f"{SLOTS} AND confirmed_flush_lsn IS NOT NULL"


@pytest.fixture
def items(database: Database) -> Database:
    """One table."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)")
    return database


@contextlib.contextmanager
def tailing(place: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """``tail`` in the background, with its temporary files in ``place``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pgsluice.cli.main", "tail", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(database: Database, query: str, count: int) -> None:
    """Until a count is what it should be."""
    deadline = time.monotonic() + 120
    while database.rows(query) != [(count,)]:
        assert time.monotonic() < deadline, f"{query}: {database.rows(query)}, not {count}"
        time.sleep(0.05)


def test_wal_level(
    capsys: pytest.CaptureFixture[str], physical_only: EmbeddedPostgres, tmp_path: Path
) -> None:
    """A server that can't do logical replication is told with the statement that mends it."""
    asked = ["tail", "--source-url", physical_only.url, "--state-dir", str(tmp_path / "none")]
    assert main(asked) == 3
    said = capsys.readouterr().err
    assert said.startswith("error SLUICE-WAL-LEVEL: wal_level is replica")
    assert "ALTER SYSTEM SET wal_level = logical; then restart the server" in said
    assert said.count("\n") == 1
    with psycopg.connect(physical_only.url) as connection:
        assert connection.execute("SELECT FROM pg_publication").fetchall() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(items: Database, tmp_path: Path, number: signal.Signals) -> None:
    """No publication, no slot, no file, and exit code 0."""
    with tailing(tmp_path, "--source-url", items.url, "--state-dir", str(tmp_path / "none")) as process:
        wait_for(items, STREAMING, 1)
        items.run("INSERT INTO item VALUES (1)")
        assert process.stdout is not None
        assert "public.item  id='1'" in process.stdout.readline()
        process.send_signal(number)
        assert process.wait(120) == 0
    wait_for(items, SLOTS, 0)
    assert items.rows(PUBLICATIONS) == [(0,)]
    assert list(tmp_path.iterdir()) == []


def test_the_next_one_removes_what_a_killed_one_left(items: Database, tmp_path: Path) -> None:
    """The server drops the slot of a killed look, and the next look its publication, but not one in use."""
    asked = ["--source-url", items.url, "--state-dir", str(tmp_path / "none")]
    with tailing(tmp_path, *asked) as first, tailing(tmp_path, *asked):
        wait_for(items, STREAMING, 2)
        assert items.rows(PUBLICATIONS) == [(2,)]
        first.kill()
        first.wait()
        wait_for(items, SLOTS, 1)
        assert items.rows(PUBLICATIONS) == [(2,)]
        with tailing(tmp_path, *asked):
            wait_for(items, STREAMING, 2)
            assert items.rows(PUBLICATIONS) == [(2,)]  # of the two that live


def test_a_running_pipeline_is_followed(database: Database, tmp_path: Path) -> None:
    """Changes are shown from the log of a run while it carries them, and the server has no second reader."""
    runner = Runner(database.url, tmp_path)
    runner.prepare()
    runner.start()
    try:
        deadline = time.monotonic() + 120
        while not list((runner.log / "consumers").glob("*.json")):
            assert time.monotonic() < deadline, runner.tail()
            time.sleep(0.05)
        with tailing(tmp_path, "-c", str(runner.config), "--from", "earliest") as process:
            assert process.stdout is not None
            for number in (1, 2):
                database.run(f"INSERT INTO customer (name, email) VALUES ('n', 'e{number}')")
                assert f"INSERT    public.customer  id='{number}'" in process.stdout.readline()
            assert database.rows(SLOTS) == [(0,)]
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0
        assert runner.stop() == 0
    finally:
        runner.close()
    with duckdb.connect(str(runner.target)) as target:
        assert target.execute("SELECT id FROM public.customer ORDER BY id").fetchall() == [(1,), (2,)]
