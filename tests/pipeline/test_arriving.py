"""A large transaction is applied while it comes in: never half visible, whatever breaks meanwhile."""

from __future__ import annotations

import random
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.errors import TargetError
from pgsluice.modifiers.chain import Chain
from pgsluice.pipeline.intake import BatchOptions
from pgsluice.pipeline.loop import SinkLoop
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.postgres.sink import PostgresSink
from pgsluice.source.connect import connect
from tests.contract.loops import LosesReplies, Wrapped
from tests.pipeline.test_postgres_target import contents
from tests.source.listening import listening, options, slot_of, wait_until, wal_end

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.sinks.base import Batch, Sink
    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy

ROWS = 60_000
TABLES = ("t", "k")


@pytest.fixture
def pair(prepared: Database, target_database: Database) -> tuple[Database, Database]:
    """Two databases with the same rows, one of which is behind by one large transaction."""
    fill = f"INSERT INTO t SELECT g, repeat(md5(g::text), 6) FROM generate_series(1, {ROWS}) g"
    keyless = "CREATE TABLE k (n int, v text)"
    prepared.run(
        keyless, "ALTER TABLE k REPLICA IDENTITY FULL", "ALTER PUBLICATION p ADD TABLE k",
        f"SELECT pg_drop_replication_slot('{slot_of(prepared)}')", fill,
    )  # fmt: skip
    target_database.run("CREATE TABLE t (id int PRIMARY KEY, v text)", keyless, fill)
    prepared.run(f"SELECT pg_create_logical_replication_slot('{slot_of(prepared)}', 'pgoutput')")
    return prepared, target_database


def change(source: Database) -> None:
    """The transaction: some 25 MiB of log."""
    with psycopg.connect(source.url) as conn:
        conn.execute("UPDATE t SET v = reverse(v)")
        conn.execute(
            "INSERT INTO k SELECT g % 5000, repeat(md5(g::text), 8) FROM generate_series(1, 20000) g"
        )
        conn.execute("DELETE FROM t WHERE id % 10 = 0")
        conn.execute("DELETE FROM k WHERE n < 100")


def make_loop(source: Database, sink: Sink, place: Path) -> SinkLoop:
    """The loop of a pipeline, opened, over a log that is there."""
    loop = SinkLoop(
        "target", sink, log=place / "log", context=SinkContext("test", place), chain=Chain(),
        spark=LazySpark(SparkOptions()), catalog=lambda: connect(source.url), wanted=None,
        options=BatchOptions(),
    )  # fmt: skip
    loop.open()
    return loop


@contextmanager
def watched(target: Database) -> Iterator[set[tuple[int, ...]]]:
    """What a reader of the target sees meanwhile."""
    seen: set[tuple[int, ...]] = set()
    done = threading.Event()

    def look() -> None:
        with target.connect() as conn:
            while not done.wait(0.02):
                row = conn.execute("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM k)").fetchone()
                assert row is not None
                seen.add(row)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


@contextmanager
def arriving(source: Database, proxy: DatabaseProxy, place: Path) -> Iterator[None]:
    """The transaction is written, and comes into a log over some seconds."""
    change(source)
    proxy.delay = 0.005
    with listening(options(source, place, url=proxy.url)) as live:
        live.wait_for_report(lambda report: report.state == "streaming")
        yield


def started(source: Database, sink: Sink, place: Path) -> SinkLoop:
    """A loop that ends when it has everything."""
    loop = make_loop(source, sink, place)
    loop.stop_at(wal_end(source))
    loop.start()
    return loop


def require_equal(pair: tuple[Database, Database]) -> None:
    """Compare row by row."""
    source, target = pair
    compared = 0
    for table in TABLES:
        wanted = contents(source, table)
        assert contents(target, table) == wanted
        compared += len(wanted)
    print(f"compared {compared} rows")
    assert compared > ROWS


def finish(loop: SinkLoop) -> None:
    """Until the loop has everything."""
    loop.join(120)
    assert not loop.is_alive()
    if loop.error is not None:
        raise loop.error


def test_it_begins_early_and_is_never_half_there(
    pair: tuple[Database, Database], proxy: DatabaseProxy, tmp_path: Path
) -> None:
    """Before its end is in the log most of it is written; a reader sees all of it or nothing."""
    source, target = pair
    with arriving(source, proxy, tmp_path), watched(target) as seen:
        loop = started(source, PostgresSink(target.url), tmp_path)
        finish(loop)
        assert loop.facts.early == 1
        time.sleep(0.1)
    assert seen == {(ROWS, 0), (ROWS * 9 // 10, 19_600)}
    require_equal(pair)


def test_cut_again_and_again(pair: tuple[Database, Database], proxy: DatabaseProxy, tmp_path: Path) -> None:
    """The connection breaks in the middle of the transaction: what was begun is taken back."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    source, target = pair
    with arriving(source, proxy, tmp_path), watched(target) as seen:
        loop = started(source, PostgresSink(target.url), tmp_path)
        for _ in range(3):
            proxy.cut_after(rng.randrange(9 << 20, 16 << 20))
            before = proxy.connections
            wait_until(lambda before=before: proxy.connections > before or not loop.is_alive())
        finish(loop)
        time.sleep(0.1)
    assert seen == {(ROWS, 0), (ROWS * 9 // 10, 19_600)}
    require_equal(pair)


def test_a_lost_reply_doubles_nothing(
    pair: tuple[Database, Database], proxy: DatabaseProxy, tmp_path: Path
) -> None:
    """Committed, but nobody heard of it: the same transaction is recognised, alone, in the usual way."""
    source, target = pair
    sink = LosesReplies(PostgresSink(target.url))
    with arriving(source, proxy, tmp_path):
        source.run("INSERT INTO k VALUES (1, 'a transaction of its own')")
        finish(started(source, sink, tmp_path))
    assert len(sink.failed) > 1
    require_equal(pair)


def test_a_row_that_the_target_refuses(
    pair: tuple[Database, Database], proxy: DatabaseProxy, tmp_path: Path
) -> None:
    """The error is that of the usual way, with table and position; nothing of the transaction is there."""
    source, target = pair
    target.run("ALTER TABLE k ADD CHECK (n <> 4999)")
    with arriving(source, proxy, tmp_path):
        loop = started(source, PostgresSink(target.url), tmp_path)
        with pytest.raises(TargetError, match="k_n_check"):
            finish(loop)
    assert isinstance(loop.error, TargetError)
    assert loop.error.caused_by_row
    assert target.rows("SELECT count(*) FROM k") == [(0,)]
    assert target.rows("SELECT count(*) FROM t") == [(ROWS,)]


class Notes(Wrapped):
    """Another sink, which says when a batch has come to it."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self.begun = threading.Event()

    def apply(self, batch: Batch) -> None:
        """As the other."""
        self.begun.set()
        super().apply(batch)


def test_stopped_in_the_middle(pair: tuple[Database, Database], proxy: DatabaseProxy, tmp_path: Path) -> None:
    """A run that is told to stop does not wait for the end; the next one has it all."""
    source, target = pair
    with arriving(source, proxy, tmp_path):
        sink = Notes(PostgresSink(target.url))
        loop = make_loop(source, sink, tmp_path)
        loop.start()
        assert sink.begun.wait(60)
        loop.stop()
        finish(loop)
        assert loop.facts.early == 0
        assert target.rows("SELECT count(*) FROM k") == [(0,)]
        finish(started(source, PostgresSink(target.url), tmp_path))
    require_equal(pair)
