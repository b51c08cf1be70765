"""
When a reader of a table first sees each row.

A process of its own, so that neither the writer nor what is measured has to wait for it: options as JSON on
standard input, a line ``ready`` when connected, and the moments (of the clock that all processes of a machine
share) on standard output when all rows have been seen, or when it has waited too long.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from bench.capture.scene import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOOK: Final = 0.001  # seconds between two questions
_PATIENCE: Final = 60.0


@contextmanager
def looking_for(url: str, table: str, first: int, count: int) -> Iterator[Callable[[], dict[int, float]]]:
    """A process that looks for rows; what it gives waits for them and has the moment of each key."""
    options = {"url": url, "table": table, "first": first, "count": count}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.postgres.sightings"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as reader:  # fmt: skip
        assert reader.stdin is not None
        assert reader.stdout is not None
        output = reader.stdout
        reader.stdin.write(json.dumps(options) + "\n")
        reader.stdin.flush()
        output.readline()
        try:
            yield lambda: {int(key): moment for key, moment in json.loads(output.readline()).items()}
        finally:
            reader.kill()


def see_rows(url: str, table: str, first: int, count: int) -> dict[int, float]:
    """The moment of each key; some are missing when they did not come in time."""
    question = sql.SQL("SELECT id FROM {} WHERE id BETWEEN %s AND %s").format(sql.Identifier(table))
    moments: dict[int, float] = {}
    following, last = first, first + count - 1
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(question, (following, last), prepare=True)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        deadline = time.monotonic() + _PATIENCE
        while following <= last and time.monotonic() < deadline:
            rows = connection.execute(question, (following, last)).fetchall()
            moment = time.monotonic()
            for (key,) in rows:
                moments[key] = moment
                following = max(following, key + 1)
            time.sleep(_LOOK)
    return moments


if __name__ == "__main__":
    sys.stdout.write(json.dumps(see_rows(**json.loads(sys.stdin.readline()))) + "\n")
