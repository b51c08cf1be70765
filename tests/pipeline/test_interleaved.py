"""Transactions that overlap: the log has them in the order of their commits, and the target is the source."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import psycopg

from pgsluice import LogOptions, MemorySink, Pipeline, PostgresSource
from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.segment import segments
from pgsluice.sinks.memory import MemoryStore
from tests.source.listening import PATIENCE, wait_until, wal_end
from tests.source.reading import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

WRITERS = 4
TRANSACTIONS = 40  # of each writer
KEPT = LogOptions(max_bytes=1 << 20, retention=3600)  # small segments, none of which is thrown away


def write(url: str, seed: int) -> None:
    """Transactions over the same rows as everybody else's."""
    dice = random.Random(seed)
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(TRANSACTIONS):
            with connection.transaction():
                for key in sorted(dice.sample(range(60), 6)):  # in one order: nobody waits in a circle
                    if dice.random() < 0.3:
                        connection.execute("DELETE FROM t WHERE id = %s", (key,))
                    else:
                        connection.execute(
                            "INSERT INTO t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                            (key, dice.randbytes(300).hex()),
                        )


def test_transactions_that_overlap(database: Database, tmp_path: Path) -> None:
    """Rows that were written first and committed last come last; positions only ascend, in every segment."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    source, store = PostgresSource(database.url), MemoryStore()
    source.init("main")
    with psycopg.connect(database.url) as slow:
        slow.execute("INSERT INTO t VALUES (1001, 'first')")
        database.run("INSERT INTO t VALUES (1002, 'second')")
        slow.execute("INSERT INTO t VALUES (1003, 'third')")
    pipeline = Pipeline(source, MemorySink(store), state_dir=tmp_path / "state", log=KEPT)
    running = threading.Thread(target=pipeline.run)
    running.start()
    try:
        wait_until(lambda: pipeline.loops)
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, [database.url] * WRITERS, range(seed, seed + WRITERS)))
        pipeline.finish_at(wal_end(database))
        running.join(PATIENCE)
    finally:
        pipeline.stop()
        running.join()

    log = tmp_path / "state" / "log"
    found = [row for row in rows_of(LogReader(log)) if row["op"] != "M"]
    assert [row["values"][0] for row in found[:3]] == ["1002", "1001", "1003"]
    positions = [(row["commit_lsn"], row["seq"]) for row in found]
    assert all(one < next_ for one, next_ in pairwise(positions))
    assert len(segments(log)) > 2
    wanted = database.rows("SELECT id::text, v FROM t")
    assert sorted(store.tables["public.t"].rows) == sorted(wanted)
