"""
One-row transactions at a steady pace, and the moment when each commit returned.

A process of its own, so that it takes no time from what is measured: options as JSON on standard input, a
line ``ready`` when connected, it begins at the next line, and the moments (of the clock that all processes
of a machine share) are on standard output at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, Final

import psycopg
from psycopg import sql

from bench.capture.scene import ROOT

_PAUSE: Final = 0.02  # seconds between two commits
_INSERT = """
    INSERT INTO {} VALUES (%s, %s, 'SKU', 'one row, one transaction, seen as soon as it can be', 12.34,
                           now(), true, 0.5)"""


def insert_row(connection: psycopg.Connection[Any], table: str, key: int, quantity: int) -> None:
    """One row, one transaction."""
    connection.execute(sql.SQL(_INSERT).format(sql.Identifier(table)), (key, quantity))


def commit_steadily(url: str, table: str, first: int, count: int) -> dict[int, float]:
    """Let a process of its own insert rows; gives the moment of each key's commit."""
    options = {"url": url, "table": table, "first": first, "count": count, "pause": _PAUSE}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.capture.commits"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as writer:  # fmt: skip
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(json.dumps(options) + "\n")
        writer.stdin.flush()
        writer.stdout.readline()
        writer.stdin.write("go\n")
        writer.stdin.flush()
        moments = json.loads(writer.stdout.readline())
    return dict(zip(range(first, first + count), moments, strict=True))


def commit_rows(url: str, table: str, first: int, count: int, pause: float) -> list[float]:
    """Insert rows one by one, ``pause`` seconds apart; every tenth has the quantity 0."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT 1")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        moments = []
        due = time.monotonic()
        for key in range(first, first + count):
            due += pause
            time.sleep(max(0.0, due - time.monotonic()))
            insert_row(connection, table, key, key % 10)
            moments.append(time.monotonic())
    return moments


if __name__ == "__main__":
    sys.stdout.write(json.dumps(commit_rows(**json.loads(sys.stdin.readline()))) + "\n")
