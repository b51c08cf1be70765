"""What a running pipeline shows: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

QUICK = """
import sys
from pgsluice.cli import main, progress
progress._LINE_SECONDS = 0.1
sys.exit(main.main(sys.argv[1:]))
"""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SLOW = """
import sys, time
from pgsluice import PostgresSink
from pgsluice.cli.main import main
from pgsluice.pipeline import copy_plan
from pgsluice.source.snapshot import ranges
copy_plan.BATCH_BYTES, copy_plan.RAW_BATCHES = 256 << 10, 1
ranges.cut.__kwdefaults__["range_bytes"] = 256 << 10
apply = PostgresSink.apply
def slow(sink, batch):
    time.sleep(0.3 if batch.steps else 0)
    apply(sink, batch)
PostgresSink.apply = slow
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def items(database: Database) -> Database:
    """One table."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)")
    return database


@contextlib.contextmanager
def running(database: Database, place: Path, stderr: int) -> Iterator[subprocess.Popen[bytes]]:
    """``run`` with lines ten times a second, whose standard error is ours to read."""
    command = [sys.executable, "-c", QUICK, *to_duckdb(place, database.url), "--mode", "replication"]
    process = subprocess.Popen(command, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read_until(descriptor: int, words: bytes) -> bytes:
    """What comes from there, up to some words or to its end."""
    found = b""
    deadline = time.monotonic() + 120
    while words not in found:
        assert time.monotonic() < deadline, found
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # a terminal that nobody holds open any more
            break
        if not data:
            break
        found += data
    return found


def test_a_table_on_a_terminal(items: Database, tmp_path: Path) -> None:
    """The sink, its position and its changes, drawn again in place while the run goes on."""
    ours, theirs = pty.openpty()
    with running(items, tmp_path, theirs) as process:
        os.close(theirs)
        shown = read_until(ours, b"running")
        items.run("INSERT INTO item VALUES (1), (2), (3)")
        shown += read_until(ours, b" 3 ")
        process.send_signal(signal.SIGINT)
        shown += read_until(ours, b"no such words")
        assert process.wait(120) == 0
    os.close(ours)
    text = shown.decode()
    for word in ("sink", "position", "changes", "changes/s", "batches", "state", "duckdb", "running"):
        assert word in text
    assert "\x1b[" in text  # the cursor goes back up, instead of a line after the other
    assert "progress  sink=" not in text


def test_plain_lines_elsewhere(items: Database, tmp_path: Path) -> None:
    """In a file or a pipe: a line now and then, without anything that moves a cursor."""
    ours, theirs = os.pipe()
    with running(items, tmp_path, theirs) as process:
        os.close(theirs)
        shown = read_until(ours, b"changes=0 ")
        items.run("INSERT INTO item VALUES (1), (2), (3)")
        shown += read_until(ours, b"changes=3 ")
        process.send_signal(signal.SIGINT)
        shown += read_until(ours, b"no such words")
        assert process.wait(120) == 0
    os.close(ours)
    text = shown.decode()
    assert "info  progress  sink=duckdb position=" in text
    assert "state=running" in text
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "command", [["snapshot"], ["run", "--init", "--mode", "snapshot_and_replication", "--once"]]
)
def test_a_bar_while_tables_are_copied(
    items: Database, target_database: Database, tmp_path: Path, command: list[str]
) -> None:
    """With flags alone, from one PostgreSQL to another: a bar that grows, and what is left; then equal."""
    items.run(
        "CREATE TABLE big (id int PRIMARY KEY, t text)",
        "INSERT INTO big SELECT g, repeat(md5(g::text), 12) FROM generate_series(1, 5000) g",
        "INSERT INTO item SELECT generate_series(1, 100)",
    )
    target = ["--target", "postgres", "--target-url", target_database.url]
    where = ["--source-url", items.url, *target, "--state-dir", str(tmp_path / "state")]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen([sys.executable, "-c", SLOW, *command, *where], stderr=theirs, env=environment)
    try:
        os.close(theirs)
        shown = COLOUR.sub("", read_until(ours, b"no such words").decode())
        assert process.wait(120) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    percents = [int(found) for found in re.findall(r"copying tables, (\d+) % of", shown)]
    assert percents == sorted(percents)
    assert len(set(percents)) >= 4, percents
    assert " s left" in shown
    assert "━" in shown
    assert "done" in shown
    for table in ("item", "big"):
        wanted = items.rows(f"SELECT * FROM {table} ORDER BY id")
        assert target_database.rows(f"SELECT * FROM {table} ORDER BY id") == wanted
