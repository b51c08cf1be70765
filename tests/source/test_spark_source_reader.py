"""The stream reader without Spark around it: real server, real listener process, every offset looked at."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn
from pgsluice.errors import (
    ConfigError,
    GapError,
    LogError,
    NotInitializedError,
    SinkBehindLogError,
    WrongSystemError,
)
from pgsluice.source.query import consumer as consumers
from pgsluice.source.query import log as query_log
from tests.source.streaming import Captured, capturing, drain, read, stream, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.source.spark import ChangeStream
    from tests.fix_pg import Database

ITEMS = "CREATE TABLE items (id int PRIMARY KEY, body text)"


@pytest.fixture
def captured(database: Database, tmp_path: Path) -> Iterator[Captured]:
    """A table of items, captured from now on."""
    with capturing(database, tmp_path / "state", ITEMS) as found:
        yield found


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch):
    """Whoever waits for another query, or for the log to grow again, gives up soon."""
    monkeypatch.setattr(consumers, "_LOCK_SECONDS", 0.3)
    monkeypatch.setattr(query_log, "_CATCH_UP_SECONDS", 0.5)


def test_batches_are_cut_by_bytes_at_transaction_ends(captured: Captured):
    """Several batches, each of whole transactions and near the limit; together every row once, in order."""
    for number in range(40):
        first, last = number * 50, number * 50 + 49
        captured.database.run(
            f"INSERT INTO items SELECT i, repeat('x', 1000) FROM generate_series({first}, {last}) i"
        )
    reader = captured.stream(maxBytesPerTrigger="256k")
    batches, _ = drain(reader)
    reader.stop()
    assert 6 <= len(batches) <= 10  # 40 transactions of about 53 KB
    assert [i for batch in batches for i in batch["seq"].to_pylist()] == list(range(1, 51)) * 40
    assert [int(v[0]) for batch in batches for v in batch["values"].to_pylist()] == list(range(2000))


def test_a_transaction_larger_than_the_limit_is_one_batch_in_several_tasks(captured: Captured):
    """It is never cut; its ranges are spread over tasks, each with a part of the rows."""
    captured.database.run(
        "INSERT INTO items VALUES (0, 'before')",
        "INSERT INTO items SELECT i, repeat('x', 1000) FROM generate_series(1, 12000) i",
        "INSERT INTO items VALUES (-1, 'after')",
    )
    reader = captured.stream(maxBytesPerTrigger="1m", partitions="4")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    offsets = [start]
    while (end := reader.latestOffset(offsets[-1], reader.getDefaultReadLimit())) != offsets[-1]:
        offsets.append(end)
    sizes = [read(reader, a, b).num_rows for a, b in pairwise(offsets)]
    tasks = [reader.partitions(a, b) for a, b in pairwise(offsets)]
    rows = [sum(batch.num_rows for batch in reader.read(task)) for task in tasks[1]]
    reader.stop()
    assert sizes == [1, 12000, 1]
    assert len(rows) == 4
    assert min(rows) > 1000


def test_an_idle_stream_answers_from_memory(captured: Captured):
    """Spark asks every 11 ms whether there is more: the answer costs next to nothing."""
    captured.database.run("INSERT INTO items SELECT i, 'x' FROM generate_series(1, 1000) i")
    reader = captured.stream()
    _, end = drain(reader)
    began = time.process_time()
    for _ in range(500):
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    spent = time.process_time() - began
    reader.stop()
    assert spent / 500 < 0.002


def test_available_now_ends_at_the_source_s_position_of_the_start(captured: Captured):
    """What is committed before the start is read, also when the log has not got it yet, and no more."""
    reader = captured.stream()
    start = reader.initialOffset()
    captured.database.run("INSERT INTO items SELECT i, 'before' FROM generate_series(1, 5000) i")
    reader.prepareForTriggerAvailableNow()
    captured.database.run("INSERT INTO items SELECT -i, 'after' FROM generate_series(1, 10) i")
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert read(reader, start, first).num_rows == 5000
    time.sleep(0.5)
    assert reader.latestOffset(first, reader.getDefaultReadLimit()) == first
    reader.stop()


def test_starting_positions(captured: Captured):
    """earliest is all the log has, latest nothing of it, an LSN what follows it."""
    captured.database.run("INSERT INTO items VALUES (1, 'a')")
    reader = captured.stream()
    rows, middle = drain(reader)
    captured.database.run("INSERT INTO items VALUES (2, 'b')")
    reader.stop()
    found = {
        position: [v[0] for batch in _drained(captured, position) for v in batch["values"].to_pylist()]
        for position in ("earliest", "latest", middle["lsn"])
    }
    assert [v[0] for v in rows[0]["values"].to_pylist()] == ["1"]
    assert found == {"earliest": ["1", "2"], "latest": [], middle["lsn"]: ["2"]}
    with pytest.raises(ConfigError, match="the log has nothing at startingPosition FFFFFF/0"):
        captured.stream(startingPosition="FFFFFF/0", consumer="later").initialOffset()


def test_latest_stays_where_it_was_when_the_first_batch_is_done_again(captured: Captured):
    """Spark asks for the initial offset again after a crash before the first commit: no row may go."""
    first = captured.stream(startingPosition="latest", consumer="crashed")
    start = first.initialOffset()
    captured.database.run("INSERT INTO items VALUES (1, 'planned'), (2, 'and not committed')")
    wait_until(lambda: first.latestOffset(start, first.getDefaultReadLimit()) != start)
    planned = first.latestOffset(start, first.getDefaultReadLimit())
    first.stop()
    again = captured.stream(startingPosition="latest", consumer="crashed")
    assert again.initialOffset() == start
    assert read(again, again.initialOffset(), planned).num_rows == 2
    again.stop()


@pytest.mark.parametrize("position", ["earliest", "latest"])
def test_the_order_of_calls_of_pyspark_4_1(captured: Captured, position: str):
    """There the latest offset is asked for first, without a start; the initial one must not lie behind it."""
    captured.database.run("INSERT INTO items VALUES (1, 'a')")
    reader = captured.stream(startingPosition=position, consumer=f"old {position}")
    end = reader.latestOffset()
    start = reader.initialOffset()
    found = [row[0] for row in _values(reader, start, end)]
    captured.database.run("INSERT INTO items VALUES (2, 'b')")
    wait_until(lambda: reader.latestOffset() != end)
    latest = reader.latestOffset()
    found += [row[0] for row in _values(reader, end, latest)]
    reader.stop()
    assert found == (["1", "2"] if position == "earliest" else ["2"])


def _values(reader: ChangeStream, start: dict[str, str], end: dict[str, str]) -> list[list[str]]:
    rows = read(reader, start, end)
    return rows["values"].to_pylist() if rows.num_rows else []


def _drained(captured: Captured, position: str) -> list:
    reader = captured.stream(startingPosition=position, consumer=f"at {position}")
    found, _ = drain(reader)
    reader.stop()
    return found


def test_offsets_of_elsewhere_are_refused(captured: Captured):
    """A checkpoint before the log's first position, after its end, or of another system is an error."""
    captured.database.run("INSERT INTO items VALUES (1, 'a')")
    reader = captured.stream()
    system = reader.initialOffset()["system"]
    reader.stop()
    limit = reader.getDefaultReadLimit()
    for offset, error, said in [
        (
            {"lsn": "0/1", "system": system},
            SinkBehindLogError,
            "stands at 0/1, but changes from there to .* no longer",
        ),
        (
            {"lsn": "FFFFFF/0", "system": system},
            GapError,
            "stands at FFFFFF/0, but the change log .* ends at",
        ),
        ({"lsn": "0/1", "system": "42"}, WrongSystemError, "of the database system 42"),
        ({"files": 3}, ConfigError, "no offset of pgsluice"),
    ]:
        restarted = captured.stream()
        with pytest.raises(error, match=said):
            restarted.latestOffset(offset, limit)
        restarted.stop()
    held = {c.name: c.lsn for c in Consumers(captured.log).all()}
    assert held["spark:envelope"] > Lsn(1)  # a refused checkpoint does not pin the log


def test_a_deleted_log_is_an_error_and_no_new_directory(captured: Captured):
    """The query stops and says so, instead of waiting for ever beside an empty directory."""
    captured.database.run("INSERT INTO items VALUES (1, 'a')")
    drain(captured.stream())
    captured.stop()
    reader = stream({"log": str(captured.log)})
    _, end = drain(reader)
    shutil.rmtree(captured.log)
    with pytest.raises(LogError, match="is gone"):
        reader.latestOffset(end, reader.getDefaultReadLimit())
    with pytest.raises(LogError, match="is gone"):
        reader.commit(end)
    assert not captured.log.exists()
    reader.stop()
    with pytest.raises(LogError, match="there is no change log"):
        stream({"log": str(captured.log)}).initialOffset()


def test_a_consumer_holds_the_log_from_its_last_commit(captured: Captured):
    """It is there from the first offset, moves by commits alone, outlives the query, and can be dropped."""
    reader = captured.stream(consumer="lake")
    start = reader.initialOffset()
    assert _held(captured) == {"spark:lake": start["lsn"]}
    captured.database.run("INSERT INTO items VALUES (1, 'a')")
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    read(reader, start, end)
    assert _held(captured) == {"spark:lake": start["lsn"]}
    reader.commit(end)
    reader.stop()
    assert _held(captured) == {"spark:lake": end["lsn"]}
    assert consumers.expire(captured.log) == []
    assert consumers.expire(captured.log, older_than=-1) == ["lake"]
    assert _held(captured) == {}


def _held(captured: Captured) -> dict[str, str]:
    return {c.name: str(c.lsn) for c in Consumers(captured.log).all()}


def test_two_running_queries_need_two_consumers(captured: Captured):
    """A second query under the same name would throw away the first one's segments: it is refused."""
    first = captured.stream(consumer="lake")
    first.initialOffset()
    with pytest.raises(ConfigError, match=r"as consumer 'lake'.*Give each query its own"):
        captured.stream(consumer="lake").initialOffset()
    second = captured.stream(consumer="other")
    second.initialOffset()
    first.stop()
    third = captured.stream(consumer="lake")
    third.initialOffset()
    second.stop()
    third.stop()


def test_the_listener_outlives_its_query_and_ends_by_its_lease(captured: Captured):
    """It runs while a query lives, comes back when it is killed, stays a while afterwards, and goes."""
    reader = captured.stream(listenerLease="2")
    start = reader.initialOffset()
    first = captured.listener
    assert first is not None
    time.sleep(3)  # longer than the lease, with nothing asked of the reader: it still says that it lives
    assert captured.listener == first
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: captured.listener not in (None, first))
    captured.database.run("INSERT INTO items VALUES (1, 'a')")
    assert sum(batch.num_rows for batch in drain(reader, start)[0]) == 1
    reader.stop()
    assert captured.listener is not None
    wait_until(lambda: captured.listener is None)
    assert json.loads((captured.log / "listener.json").read_text())["state"] == "stopped"


def test_a_slot_and_publication_of_ones_own_need_no_init(database: Database, tmp_path: Path):
    """Both are used as they are; with neither, an unprepared database is an error that says what to run."""
    database.run(ITEMS, "CREATE PUBLICATION mine FOR TABLE items")
    database.rows("SELECT pg_create_logical_replication_slot('my_slot', 'pgoutput')")
    captured = Captured(database, tmp_path / "state")
    with pytest.raises(NotInitializedError, match="pgsluice init"):
        captured.stream().initialOffset()
    database.run("INSERT INTO items VALUES (1, 'a')")
    reader = captured.stream(slot="my_slot", publication="mine")
    try:
        assert sum(batch.num_rows for batch in drain(reader)[0]) == 1
    finally:
        reader.stop()
        captured.stop()
