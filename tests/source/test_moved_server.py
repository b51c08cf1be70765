"""A server that was promoted, put back, or has thrown the slot's WAL away: each on a server of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.segment import read_meta
from pgsluice.embedded import EmbeddedPostgres
from pgsluice.errors import SlotInvalidatedError, TimelineDivergedError
from tests.fix_pg import Database
from tests.source.listening import listening, options, prepare, wal_end
from tests.source.reading import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTINGS = {"fsync": "off", "max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}


@pytest.fixture
def lone() -> Iterator[Database]:
    """A database with a table, a publication and a slot, on a server that the test may do anything to."""
    directory = Path(tempfile.mkdtemp(prefix="pgsluice-test-"))
    try:
        with EmbeddedPostgres(directory, _SETTINGS) as server:
            made = Database("postgres", server)
            prepare(made)
            yield made
    finally:
        shutil.rmtree(directory)


def promote(database: Database) -> None:
    """Let the server come up as a standby without a primary, and promote it."""
    data = database.server.data_directory
    signal = data / "standby.signal"
    signal.touch()
    owner = data.stat()
    os.chown(signal, owner.st_uid, owner.st_gid)
    database.server.start()
    database.run("SELECT pg_promote()")
    while database.rows("SELECT pg_is_in_recovery()")[0][0]:
        time.sleep(0.05)


def keys(log: Path) -> list[str | None]:
    """The keys of all rows in a log."""
    return [row["values"][0] for row in rows_of(LogReader(log))]


def test_a_promotion_goes_on_where_the_log_ends(lone: Database, tmp_path: Path) -> None:
    """The new timeline left the old one behind the log's end: nothing is missing, nothing comes twice."""
    with listening(options(lone, tmp_path)) as live:
        lone.run("INSERT INTO t VALUES (1, 'before')")
        live.wait_for(wal_end(lone))
    lone.server.stop("fast")
    promote(lone)
    lone.run("INSERT INTO t VALUES (2, 'after')")
    with listening(options(lone, tmp_path)) as live:
        live.wait_for(wal_end(lone))
    meta = read_meta(tmp_path / "log")
    assert meta is not None
    assert meta.timeline == 2
    assert keys(tmp_path / "log") == ["1", "2"]


def test_a_log_that_ends_beyond_the_switch_has_diverged(lone: Database, tmp_path: Path) -> None:
    """A replica that lacked the newest rows was promoted: the log has rows that this server never had."""
    data, older = lone.server.data_directory, lone.server.directory / "older"
    lone.server.stop("fast")
    shutil.copytree(data, older, copy_function=_copy, symlinks=True)
    lone.server.start()
    with listening(options(lone, tmp_path)) as live:
        lone.run("INSERT INTO t VALUES (1, 'only on the old primary')")
        live.wait_for(wal_end(lone))
    lone.server.stop("fast")
    shutil.rmtree(data)
    older.rename(data)
    _own_directories(data)
    promote(lone)
    lone.run("INSERT INTO t VALUES (2, 'only on the new one')")
    with listening(options(lone, tmp_path)) as live:
        error = live.wait_for_error()
    assert isinstance(error, TimelineDivergedError)
    assert "timeline 2" in str(error)
    assert keys(tmp_path / "log") == ["1"]


def test_a_slot_whose_wal_is_gone(lone: Database, tmp_path: Path) -> None:
    """The server has invalidated the slot: said with its reason and what to do, and nothing is skipped."""
    with listening(options(lone, tmp_path)) as live:
        lone.run("INSERT INTO t VALUES (1, 'x')")
        live.wait_for(wal_end(lone))
    lone.run("INSERT INTO t VALUES (2, 'never read')")
    for _ in range(4):
        lone.run("SELECT pg_logical_emit_message(false, 'x', repeat('x', 100000))", "SELECT pg_switch_wal()")
    lone.run("CHECKPOINT")
    state = lone.rows("SELECT wal_status FROM pg_replication_slots")
    assert state == [("lost",)]
    with listening(options(lone, tmp_path)) as live:
        error = live.wait_for_error()
    assert isinstance(error, SlotInvalidatedError)
    assert "max_slot_wal_keep_size" in error.remedy
    assert keys(tmp_path / "log") == ["1"]


def _copy(source: str, target: str) -> str:
    copied = shutil.copy2(source, target)
    owner = Path(source).stat()
    os.chown(target, owner.st_uid, owner.st_gid)
    return str(copied)


def _own_directories(data: Path) -> None:
    """Directories of the copy belong to who runs the server, as its files do."""
    owner = (data / "PG_VERSION").stat()
    for path in (data, *(entry for entry in data.rglob("*") if entry.is_dir())):
        os.chown(path, owner.st_uid, owner.st_gid)
