"""The point of a copy: which commits it has and which the stream has, and what would end it too early."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import MemorySink, Pipeline, PostgresSink, PostgresSource
from pgsluice.sinks.memory import MemoryStore
from pgsluice.source.snapshot.point import hold_point
from tests.pipeline.test_run import source_rows
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proof import Proof
    from tests.fix_proxy import DatabaseProxy

pytestmark = pytest.mark.timeout(120)

POINTS = 6
WRITERS = 4
HELD = "120 milliseconds"  # how long a commit waits for a standby, until somebody gives up waiting


@contextlib.contextmanager
def held_commits(database: Database) -> Iterator[None]:
    """Writers whose commits stand in the WAL already while nobody sees them: no standby confirms them."""
    ending, numbers = threading.Event(), itertools.count(1)

    def write() -> None:
        with database.connect() as conn:
            conn.execute("SET synchronous_commit = on")
            while not ending.is_set():
                number = next(numbers)
                conn.execute("INSERT INTO seen SELECT %s, 'x' FROM generate_series(1, 2)", (number,))

    def give_up() -> None:
        with database.connect() as conn:
            while any(writer.is_alive() for writer in writers):
                conn.execute(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                    " AND clock_timestamp() - query_start > %s::interval",
                    (HELD,),
                )
                time.sleep(0.02)

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    database.run(
        "ALTER SYSTEM SET synchronous_commit = 'local'",  # of all others
        "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
        "SELECT pg_reload_conf()",
    )
    threads = [*writers, threading.Thread(target=give_up)]
    try:
        wait_until(lambda: database.rows("SHOW synchronous_standby_names") == [("nobody",)])
        for thread in threads:
            thread.start()
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()
        database.run(
            "ALTER SYSTEM RESET synchronous_standby_names",
            "ALTER SYSTEM RESET synchronous_commit",
            "SELECT pg_reload_conf()",
        )


def test_commits_that_wait_for_a_standby(
    database: Database, target_database: Database, tmp_path: Path, proof: Proof
) -> None:
    """Each is in the copy or in the stream after it: never in both, never in none; also in the target."""
    database.run("CREATE TABLE seen (number int, t text)")
    stream = PostgresSource(database.url, keyless="full", slot=f"s_{database.name}")
    stream.init("stream")
    points: list[tuple[int, set[int]]] = []
    with held_commits(database):
        for _ in range(POINTS):
            with hold_point(database.url) as point:
                rows = point.conn.execute("SELECT number FROM public.seen").fetchall()
                points.append((int(point.lsn), {number for (number,) in rows}))
        copied = Pipeline(
            PostgresSource(database.url, keyless="full", init=True),
            PostgresSink(target_database.url),
            state_dir=tmp_path / "copied",
        )
        assert copied.run(once=True)
    store = MemoryStore()
    Pipeline(stream, MemorySink(store), name="stream", mode="replication", state_dir=tmp_path / "stream").run(
        once=True
    )
    commits = {int(row["values"][0]): row["commit_lsn"] for row in store.rows().to_pylist() if row["values"]}
    assert set(commits) == {number for (number,) in database.rows("SELECT number FROM seen")}
    for lsn, seen in points:
        assert seen == {number for number, at in commits.items() if at < lsn}
    assert len({len(seen) for _, seen in points}) > 1
    assert copied.run(once=True)
    wanted = source_rows(database, "seen")
    assert source_rows(target_database, "seen") == wanted
    proof(f"{len(commits)} commits held back, {POINTS} points, compared {len(wanted)} rows: equal")


LIMITS = (
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "statement_timeout",
    "transaction_timeout",
)


def test_a_database_that_ends_long_sessions(
    database: Database, proxy: DatabaseProxy, target_database: Database, tmp_path: Path
) -> None:
    """What it sets against applications that hang does not end a copy or a stream that takes longer."""
    database.run(
        "CREATE TABLE big (id int PRIMARY KEY, t text)",
        "INSERT INTO big SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 4000) g",
        "CREATE TABLE bag (t text)",
        "INSERT INTO bag SELECT repeat(md5(g::text), 30) FROM generate_series(1, 1000) g",
    )
    for limit in LIMITS:
        database.run(f"ALTER DATABASE {database.name} SET {limit} = '1s'")
    took = []

    class Slow(PostgresSink):
        """Lets the point wait, and then takes the rows through a thin line."""

        def _copy(self, *given: Any) -> bool:
            time.sleep(1.5)
            proxy.delay, started = 0.02, time.monotonic()
            done = super()._copy(*given)
            took.append(time.monotonic() - started)
            proxy.delay = 0.0
            return done

    pipeline = Pipeline(
        PostgresSource(proxy.url, keyless="full", init=True),
        Slow(target_database.url),
        state_dir=tmp_path / "state",
    )
    errors: list[BaseException] = []

    def run() -> None:
        try:
            pipeline.run()
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: errors or (pipeline.loops and pipeline.loops["target"].is_streaming))
        time.sleep(2)  # nothing comes
        database.run("UPDATE big SET t = 'new' WHERE id % 2 = 0", "DELETE FROM bag WHERE t LIKE 'a%'")
        wait_until(lambda: errors or not target_database.rows("SELECT FROM bag WHERE t LIKE 'a%'"))
    finally:
        pipeline.stop()
        thread.join()
    assert errors == []
    assert len(took) == 1, "the copy was broken off"
    assert took[0] > 1.2
    for table in ("big", "bag"):
        assert source_rows(target_database, table) == source_rows(database, table)
