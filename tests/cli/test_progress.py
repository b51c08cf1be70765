"""What a running pipeline shows: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import pty
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
