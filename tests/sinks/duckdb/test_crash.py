"""A process that is killed leaves a whole batch in the DuckDB file, or nothing of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.sinks.writers import run_writer

if TYPE_CHECKING:
    from pathlib import Path

# Each batch inserts 20,000 rows, moves the sum of the counter, and names itself in the progress.
WRITER = """
import sys
from pathlib import Path
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.duckdb import KIND, DuckDBConfig
from pgsluice.testing.batches import Changes, table
path, batches = Path(sys.argv[1]), int(sys.argv[2])
rows = table("public.rows", {"id": "int8", "text": "text"}, key=["id"], version=1)
counter = table("public.counter", {"id": "int4", "batch": "int4"}, key=["id"], version=2)
sink = KIND.build(DuckDBConfig(path=path, threads=1, fold_bytes=200_000))
token = sink.open(SinkContext("p", path.parent))
for number in range(int(token or 0), batches):
    changes = Changes()
    for place in range(number * 20_000, (number + 1) * 20_000):
        changes.insert(rows, str(place), "some text of a row")
    if number:
        changes.update(counter, "1", str(number + 1))
    else:
        changes.insert(counter, "1", "1")
    sink.apply(changes.batch(start=token, end=str(number + 1), chunk_rows=3_000))
    token = str(number + 1)
    print(token, flush=True)
"""


def write(path: Path, batches: int, failpoint: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the writer up to so many batches in all."""
    return run_writer(WRITER, path, batches, failpoint)


def held(path: Path) -> tuple[str | None, int, int, int | None]:
    """Progress, rows, different rows, and the counter."""
    with duckdb.connect(str(path)) as connection:
        [(token,)] = connection.execute("SELECT token FROM pgsluice.progress").fetchall()
        tables = connection.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'public'"
        ).fetchall()
        if tables == [(0,)]:
            return token, 0, 0, None
        [(rows, different)] = connection.execute(
            "SELECT count(*), count(DISTINCT id) FROM public.rows"
        ).fetchall()
        [(batch,)] = connection.execute("SELECT batch FROM public.counter").fetchall()
        return token, rows, different, batch


@pytest.mark.parametrize(
    ("failpoint", "kept"),
    [
        ("sink.before_commit", 0),
        ("sink.after_commit", 1),
        ("sink.before_commit:3", 2),
        ("sink.after_commit:2", 2),
    ],
)
def test_killed_at_a_failpoint(tmp_path: Path, failpoint: str, kept: int):
    """Before the commit nothing of the batch is there, after it everything; then the writer goes on."""
    path = tmp_path / "t.duckdb"
    killed = write(path, 3, failpoint)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    expected = (str(kept), kept * 20_000, kept * 20_000, kept) if kept else (None, 0, 0, None)
    assert held(path) == expected
    assert write(path, 3).returncode == 0
    assert held(path) == ("3", 60_000, 60_000, 3)


@pytest.mark.parametrize("milliseconds", [0, 40, 120, 300])
def test_killed_at_any_moment(tmp_path: Path, milliseconds: int):
    """Killed some time after its first batch: what is there is what progress says."""
    path = tmp_path / "t.duckdb"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), "50"], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"1\n"
    with suppress(subprocess.TimeoutExpired):
        writer.wait(timeout=milliseconds / 1000)
    writer.kill()
    writer.wait(timeout=30)
    writer.stdout.close()
    token, rows, different, batch = held(path)
    kept = int(token or 0)
    assert kept >= 1
    assert (rows, different, batch) == (kept * 20_000, kept * 20_000, kept)
    assert write(path, kept + 1).returncode == 0
    assert held(path) == (str(kept + 1), (kept + 1) * 20_000, (kept + 1) * 20_000, kept + 1)
