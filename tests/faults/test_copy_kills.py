"""Killed with -9 in the middle of a copy into PostgreSQL: the next start goes on, and the end is equal."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from pgsluice.changelog.position import Progress
from pgsluice.pipeline.resync import ask_for_copy
from tests.faults.running import Runner
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proof import Proof

pytestmark = pytest.mark.timeout(400)

TABLES = ("bag", "item", "packed", "wiped")
KILLED = -signal.SIGKILL
MOST_KILLS = 8


class SmallCopies(Runner):
    """Into another database, in many small ranges."""

    program = "tests.faults.small_copies"

    def dies_at(self, place: str, *arguments: str) -> None:
        """A run that is killed at a named place."""
        done = self.command(*arguments, env={"PGSLUICE_FAILPOINT": place})
        with self.lines.open("a") as lines:  # for who looks into a failure
            lines.write(done.stderr)
        assert done.returncode == KILLED, done.stderr

    def ends(self, *arguments: str) -> str:
        """One that comes to its end; what it has said."""
        done = self.command(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stderr


class Writing:
    """Changes of the tables that are copied, and rewrites of others, while a block runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ending, self._calm = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._rewrite)]
        self.transactions = self.rewrites = 0

    def __enter__(self) -> Writing:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self.stop_rewriting()
        for thread in self._threads:
            thread.join()

    def stop_rewriting(self) -> None:
        """A table that is rewritten more often than a busy machine can copy it is never copied."""
        self._calm.set()

    def _write(self) -> None:
        with self._database.connect() as conn:
            while not self._ending.wait(0.02):
                self.transactions += 1
                number = self.transactions
                with conn.transaction():
                    conn.execute("UPDATE item SET n = n + 1 WHERE id %% 700 = %s", (number % 700,))
                    conn.execute("UPDATE item SET id = -id WHERE id = %s", (number * 13 % 3000,))
                    conn.execute("DELETE FROM item WHERE id = %s", (number * 17 % 3000,))
                    conn.execute("INSERT INTO item VALUES (%s, 0, repeat('n', 300))", (10_000 + number,))
                    conn.execute("INSERT INTO bag SELECT %s, repeat('n', 300)", (number % 9,))
                    chosen = "SELECT ctid FROM bag WHERE n = %s LIMIT 1"
                    conn.execute(f"DELETE FROM bag WHERE ctid IN ({chosen})", ((number + 4) % 9,))

    def _rewrite(self) -> None:
        while not self._calm.wait(1):
            self.rewrites += 1
            self._database.run(
                "VACUUM FULL packed",
                "TRUNCATE wiped",
                f"INSERT INTO wiped SELECT g, {self.rewrites} FROM generate_series(1, 50) g",
            )


@pytest.fixture
def filled(database: Database) -> Database:
    """Tables of many ranges, with and without a key, and two that others rewrite."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY, n int, t text)",
        "INSERT INTO item SELECT g, g, repeat(md5(g::text), 10) FROM generate_series(1, 3000) g",
        "CREATE TABLE bag (n int, t text)",
        "INSERT INTO bag SELECT g % 9, repeat(md5(g::text), 10) FROM generate_series(1, 2000) g",
        "CREATE TABLE packed (id int PRIMARY KEY, t text)",
        "INSERT INTO packed SELECT g, repeat('p', 100) FROM generate_series(1, 1000) g",
        "CREATE TABLE wiped (id int PRIMARY KEY, n int)",
        "INSERT INTO wiped SELECT g, 0 FROM generate_series(1, 50) g",
    )
    return database


@pytest.fixture
def runner(filled: Database, target_database: Database, tmp_path: Path) -> Iterator[SmallCopies]:
    """A pipeline that is prepared."""
    made = SmallCopies(
        filled.url, tmp_path, targets=f"target: {{postgres: {{url: '{target_database.url}'}}}}"
    )
    made.ends("init")
    yield made
    made.close()


def begun(source: Database, target: Database) -> set[str]:
    """The tables that are copied in part, as the target says."""
    ((token,),) = target.rows("SELECT token FROM pgsluice.progress")
    copies = Progress.decode(token).copies if token else None
    names = dict(source.rows("SELECT oid, relname FROM pg_class WHERE relkind = 'r'"))
    return {str(names[relid]) for relid in copies.begun} if copies else set()


def compare(source: Database, target: Database) -> int:
    """Compare all tables row by row; gives how many rows."""
    compared = 0
    for table in TABLES:
        wanted = source_rows(source, table)
        assert source_rows(target, table) == wanted, table
        compared += len(wanted)
    assert target.rows("SELECT pipeline FROM pgsluice.progress") == [("shop",)]
    return compared


def test_in_the_middle_of_tables(
    filled: Database, target_database: Database, runner: SmallCopies, proof: Proof
) -> None:
    """With and without a key, under traffic, while others are truncated and packed; then a copy anew."""
    broken: set[str] = set()
    kills = 0
    with Writing(filled) as writing:
        while not {"item", "bag"} <= broken:
            assert kills < MOST_KILLS, broken
            runner.dies_at(f"sink.before_commit:{12 if broken else 4}", "run")
            kills += 1
            broken |= begun(filled, target_database)
        writing.stop_rewriting()
        said = runner.lines.read_text() + runner.ends("run", "--once")
    assert "going on with a table  table=public.item" in said
    runner.ends("run", "--once")
    compared = compare(filled, target_database)
    proof(
        f"{kills} kills, {writing.transactions} transactions and {writing.rewrites} rewrites meanwhile, "
        f"compared {compared} rows: equal"
    )


def test_around_a_copy_anew(
    filled: Database, target_database: Database, runner: SmallCopies, tmp_path: Path, proof: Proof
) -> None:
    """In its middle, before and after it is put in place; with changes in between."""
    runner.ends("run", "--once")
    target_database.run("DELETE FROM item WHERE id % 3 = 0", "UPDATE item SET n = -1 WHERE id % 7 = 0")
    target_database.run("DELETE FROM bag WHERE n = 4", "INSERT INTO bag VALUES (100, 'of others')")
    for table in ("item", "bag"):
        ask_for_copy(filled.url, "shop", tmp_path / "state", ["postgres"], ("public", table))
    for place in ("sink.before_commit:5", "sink.swapped", "anew.in_place"):
        runner.dies_at(place, "run", "--once")
        filled.run(
            "UPDATE item SET n = n + 1 WHERE id % 5 = 0",
            "DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE n = 3 LIMIT 5)",
            "INSERT INTO bag SELECT 3, 'later' FROM generate_series(1, 3)",
        )
    runner.ends("run", "--once")
    compared = compare(filled, target_database)
    assert target_database.rows("SELECT relname FROM pg_class WHERE relname LIKE 'anew%'") == []
    proof(f"3 kills, compared {compared} rows: equal")


def test_a_snapshot_alone(filled: Database, target_database: Database, tmp_path: Path) -> None:
    """It has no log to go on with: tables that are whole stay, the one in the middle is copied again."""
    lines = f"target: {{postgres: {{url: '{target_database.url}'}}}}"
    runner = SmallCopies(filled.url, tmp_path, targets=lines, mode="snapshot")
    runner.dies_at("sink.before_commit:12", "snapshot")
    assert begun(filled, target_database) == {"bag"}
    runner.ends("snapshot")
    assert compare(filled, target_database) > 5000
    assert filled.rows("SELECT FROM pg_replication_slots WHERE database = current_database()") == []
