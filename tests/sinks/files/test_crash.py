"""A process that is killed leaves a whole batch in the feed, or nothing of it, for every reader."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.sinks.files.feed import Feed
from tests.sinks.writers import run_writer

if TYPE_CHECKING:
    from pathlib import Path

BATCH = 2_000
# Each batch inserts rows into two tables, in several files each, and names itself in the progress.
WRITER = f"""
import sys
from pathlib import Path
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.files import KIND, FilesConfig
from pgsluice.testing.batches import Changes, table
path, batches = Path(sys.argv[1]), int(sys.argv[2])
one = table("public.one", {{"id": "int8", "text": "text"}}, key=["id"], version=1)
two = table("public.two", {{"id": "int8", "text": "text"}}, key=["id"], version=2)
sink = KIND.build(FilesConfig(path=path, file_bytes=100_000))
token = sink.open(SinkContext("p", path))
for number in range(int(token or 0), batches):
    changes = Changes()
    for place in range(number * {BATCH}, (number + 1) * {BATCH}):
        changes.insert(one, str(place), "some text of a row")
        changes.insert(two, str(place), "some text of a row")
    sink.apply(changes.batch(start=token, end=str(number + 1), chunk_rows=500))
    token = str(number + 1)
    print(token, flush=True)
"""


def write(path: Path, batches: int, failpoint: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the writer up to so many batches in all."""
    return run_writer(WRITER, path, batches, failpoint)


def rows(path: Path, name: str) -> int:
    """How many rows DuckDB finds of a table; they are all different."""
    if not list(path.glob(f"public.{name}/*.parquet")):
        return 0
    query = f"SELECT count(*), count(DISTINCT id) FROM '{path}/public.{name}/*.parquet'"
    [(found, different)] = duckdb.sql(query).fetchall()
    assert found == different
    return int(found)


@pytest.mark.parametrize(
    ("failpoint", "kept", "visible"),
    [
        ("sink.before_commit", 0, False),
        ("sink.before_commit:3", 2, True),
        ("sink.after_commit", 1, False),
        ("sink.after_commit:2", 2, False),
        ("files.revealing", 1, False),
    ],
)
def test_killed_at_a_failpoint(tmp_path: Path, failpoint: str, kept: int, visible: bool) -> None:
    """
    Before the manifest nothing counts, after it everything does.

    A reader never sees a row that does not count; those of a commit whose files have not got their names yet
    are seen once the next run has begun.
    """
    path = tmp_path / "feed"
    killed = write(path, 3, failpoint)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    seen = [rows(path, name) for name in ("one", "two")]
    assert max(seen) <= kept * BATCH
    assert (seen == [kept * BATCH] * 2) == (visible or kept == 0)
    assert write(path, kept).returncode == 0  # opens the feed, and has nothing to write
    assert [rows(path, name) for name in ("one", "two")] == [kept * BATCH] * 2
    assert Feed(path).token("p") == (str(kept) if kept else None)
    assert list(path.rglob("*.tmp")) == []
    assert write(path, 3).returncode == 0
    assert [rows(path, name) for name in ("one", "two")] == [3 * BATCH] * 2


@pytest.mark.parametrize("milliseconds", [0, 15, 40, 120, 300])
def test_killed_at_any_moment(tmp_path: Path, milliseconds: int) -> None:
    """Killed some time after its first batch: what the next run finds is what progress says."""
    path = tmp_path / "feed"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), "500"], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"1\n"
    with suppress(subprocess.TimeoutExpired):
        writer.wait(timeout=milliseconds / 1000)
    writer.kill()
    writer.wait(timeout=30)
    writer.stdout.close()
    assert write(path, 0).returncode == 0
    kept = int(Feed(path).token("p") or 0)
    assert kept >= 1
    assert [rows(path, name) for name in ("one", "two")] == [kept * BATCH] * 2
    assert write(path, kept + 1).returncode == 0
    assert [rows(path, name) for name in ("one", "two")] == [(kept + 1) * BATCH] * 2
    print(f"compared {2 * (kept + 1) * BATCH} rows")
