"""The listener against a real server: what is confirmed, what is written, what is refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.lock import LogLock
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.errors import (
    LogLockedError,
    LogTooSmallError,
    PublicationMissingError,
    SlotAheadOfLogError,
    SlotBehindError,
    SlotMissingError,
    SlotUnusableError,
    WrongSystemError,
)
from pgsluice.source.connect import connect
from pgsluice.source.listener import ListenerOptions
from pgsluice.source.replication import start
from pgsluice.source.report import read_report
from tests.source.listening import (
    confirmed,
    listening,
    options,
    slot_of,
    wait_until,
    wait_until_confirmed,
    wal_end,
)
from tests.source.reading import rows_of

if TYPE_CHECKING:
    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy


@pytest.mark.both_versions
def test_rows_arrive_and_are_confirmed_when_durable(prepared: Database, tmp_path: Path) -> None:
    """What is committed is in the log, and the slot never stands beyond the log."""
    with listening(options(prepared, tmp_path)) as live:
        prepared.run(
            "INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 5000) g", "DELETE FROM t WHERE id < 11"
        )
        reader = live.wait_for(wal_end(prepared))
        wait_until_confirmed(prepared, wal_end(prepared))
        assert confirmed(prepared) <= LogReader(tmp_path / "log").end
        found = rows_of(reader)
        assert [row["op"] for row in found] == ["I"] * 5000 + ["D"] * 10
        assert [row["values"] for row in found[:2]] == [["1", "v1"], ["2", "v2"]]


@pytest.mark.both_versions
def test_idle_and_unpublished_traffic_still_advance_the_slot(prepared: Database, tmp_path: Path) -> None:
    """Changes of tables that nobody publishes move the slot by durable watermarks, and write no rows."""
    with listening(options(prepared, tmp_path)):
        for _ in range(3):
            prepared.run("INSERT INTO unpublished SELECT coalesce(max(id), 0) + 1 FROM unpublished")
        wait_until_confirmed(prepared, wal_end(prepared))
    reader = LogReader(tmp_path / "log")
    assert reader.end >= confirmed(prepared)
    assert rows_of(reader) == []


def test_reconnecting_repeats_nothing(prepared: Database, proxy: DatabaseProxy, tmp_path: Path) -> None:
    """Transactions that are in the log but were not confirmed don't come twice, messages included."""
    with listening(options(prepared, tmp_path, url=proxy.url)) as live:
        for number in range(40):
            prepared.run(
                f"INSERT INTO t VALUES ({number}, 'x')",
                "SELECT pg_logical_emit_message(false, 'mine', 'alone')",
                "SELECT pg_logical_emit_message(true, 'mine', 'with its transaction')",
            )
            if number % 4 == 0:
                proxy.cut(reset=True)
        reader = live.wait_for(wal_end(prepared), timeout=120)
        found = rows_of(reader)
    assert [row["values"][0] for row in found if row["op"] == "I"] == [str(n) for n in range(40)]
    assert sum(row["op"] == "M" and row["seq"] == 0 for row in found) == 40
    assert sum(row["op"] == "M" and row["seq"] == 1 for row in found) == 40
    positions = [(row["end_lsn"], row["seq"]) for row in found]
    assert positions == sorted(positions)


def test_a_stream_that_is_refused_leaves_no_descriptor_open(prepared: Database) -> None:
    """Each refusal that is tried again would cost one until there are none left."""
    held = []
    before = _descriptors()
    for _ in range(3):
        connection = connect(prepared.url, replication=True)
        with pytest.raises(SlotMissingError) as refusal:
            start(connection, "no_such_slot", ("p",), Lsn(0))
        held.append(refusal)  # its frames keep the stream from being collected
    assert _descriptors() == before


def _descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_sinks_hold_the_slot_back_when_asked(prepared: Database, tmp_path: Path) -> None:
    """confirm: sinks. The slot follows the slowest consumer, never the log."""
    before = confirmed(prepared)
    with listening(options(prepared, tmp_path, confirm="sinks")) as live:
        prepared.run("INSERT INTO t VALUES (1, 'x')")
        end = wal_end(prepared)
        live.wait_for(end)
        time.sleep(0.5)
        assert confirmed(prepared) == before
        Consumers(tmp_path / "log").release("slow", end)
        wait_until_confirmed(prepared, end)


def test_a_full_log_closes_the_connection(prepared: Database, tmp_path: Path) -> None:
    """The slot is inactive while the log is full, and the rest comes once consumers let go."""
    small = ListenerOptions(
        prepared.url, slot_of(prepared), ("p",), tmp_path / "log", max_bytes=1_000_000, segment_bytes=50_000
    )
    Consumers(tmp_path / "log").release("slow", Lsn(0))
    with listening(small) as live:
        for start in range(1, 30_000, 3000):
            prepared.run(
                f"INSERT INTO t SELECT g, repeat('v', 50) FROM generate_series({start}, {start + 2999}) g"
            )
        deadline = time.monotonic() + 120
        while (report := read_report(tmp_path / "log")) is None or report.state != "full":
            assert time.monotonic() < deadline, report
            time.sleep(0.05)
        active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot_of(prepared)}'"
        assert prepared.rows(active) == [(False,)]
        counted = 0
        position = LogReader(tmp_path / "log").first_lsn
        while counted < 30_000:
            piece = LogReader(tmp_path / "log").next(position, 100_000)
            if piece is None:
                assert live.error is None
                time.sleep(0.05)
                continue
            counted += piece.changes
            position = piece.end
            Consumers(tmp_path / "log").release("slow", position)
    assert counted == 30_000


def test_a_transaction_that_can_never_fit_is_named(prepared: Database, tmp_path: Path) -> None:
    """A transaction larger than the whole log is a clear stop, not an endless loop."""
    Consumers(tmp_path / "log").release("quick", Lsn(1 << 60))
    tiny = ListenerOptions(prepared.url, slot_of(prepared), ("p",), tmp_path / "log", max_bytes=100_000)
    with listening(tiny) as live:
        prepared.run("INSERT INTO t SELECT g, repeat('v', 200) FROM generate_series(1, 60000) g")
        error = live.wait_for_error(60)
    assert isinstance(error, LogTooSmallError)
    assert "log.max_bytes" in str(error)


@pytest.mark.both_versions
def test_a_heartbeat_moves_the_slot_of_a_silent_database(prepared: Database, tmp_path: Path) -> None:
    """The heartbeat is transactional, advances the slot and never shows as a row."""
    onlooker = f"other_{prepared.name}"  # a slot that nobody confirms still has all that was written
    prepared.run(f"SELECT pg_create_logical_replication_slot('{onlooker}', 'pgoutput')")

    def beats() -> list[tuple[str, bytes]]:
        written = prepared.rows(
            f"SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes('{onlooker}', NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'p', 'messages', 'true')"
        )
        return [(lsn, bytes(data)) for lsn, data in written if data[:1] == b"M"]

    with listening(options(prepared, tmp_path, heartbeat=0.2)):
        found = wait_until(lambda: len(seen := beats()) > 1 and seen)
        wait_until_confirmed(prepared, Lsn(Lsn.parse(found[-1][0]) + 1))
    assert all(message[1] == 1 and b"pgsluice.heartbeat" in message for _, message in found)
    assert rows_of(LogReader(tmp_path / "log")) == []


@pytest.mark.both_versions
def test_foreign_changes_can_be_left_out(prepared: Database, tmp_path: Path) -> None:
    """origin: none drops what the source itself replicated from elsewhere, on old servers too."""
    with prepared.connect() as connection, listening(options(prepared, tmp_path, origin="none")) as live:
        origin = f"elsewhere_{prepared.name}"
        connection.execute("SELECT pg_replication_origin_create(%s)", (origin,))
        connection.execute("INSERT INTO t VALUES (1, 'ours')")
        connection.execute("SELECT pg_replication_origin_session_setup(%s)", (origin,))
        connection.execute("INSERT INTO t SELECT g, 'theirs' FROM generate_series(100, 200) g")
        connection.execute("SELECT pg_replication_origin_session_reset()")
        connection.execute("INSERT INTO t VALUES (2, 'ours')")
        reader = live.wait_for(wal_end(prepared))
        connection.execute("SELECT pg_replication_origin_drop(%s)", (origin,))
    assert [row["values"] for row in rows_of(reader)] == [["1", "ours"], ["2", "ours"]]


def test_a_missing_slot(prepared: Database, tmp_path: Path) -> None:
    """Said at once, with what to do."""
    prepared.run(f"SELECT pg_drop_replication_slot('{slot_of(prepared)}')")
    with listening(options(prepared, tmp_path)) as live:
        assert isinstance(live.wait_for_error(), SlotMissingError)


def test_a_slot_of_another_kind(prepared: Database, tmp_path: Path) -> None:
    """A slot that can't decode is refused."""
    prepared.run(
        f"SELECT pg_drop_replication_slot('{slot_of(prepared)}')",
        f"SELECT pg_create_physical_replication_slot('{slot_of(prepared)}')",
    )
    with listening(options(prepared, tmp_path)) as live:
        assert isinstance(live.wait_for_error(), SlotUnusableError)


def test_a_slot_ahead_of_the_log(prepared: Database, tmp_path: Path) -> None:
    """Another program advanced the slot: the gap is named."""
    with listening(options(prepared, tmp_path)) as live:
        prepared.run("INSERT INTO t VALUES (1, 'x')")
        live.wait_for(wal_end(prepared))
    with prepared.connect() as hold:
        # An open transaction keeps the slot's restart point back, as it is in a busy database.
        hold.execute("BEGIN")
        hold.execute("INSERT INTO unpublished VALUES (99)")
        prepared.run(
            "INSERT INTO t VALUES (2, 'lost')",
            f"SELECT pg_replication_slot_advance('{slot_of(prepared)}', pg_current_wal_lsn())",
        )
        hold.execute("COMMIT")
    with listening(options(prepared, tmp_path)) as live:
        error = live.wait_for_error()
    assert isinstance(error, SlotAheadOfLogError)
    assert "lost" in str(error)


@pytest.mark.both_versions
def test_a_publication_that_goes_away_is_fatal(prepared: Database, tmp_path: Path) -> None:
    """15 can't decode any more, 18 only warns and leaves rows out: both end the stream, with a remedy."""
    with listening(options(prepared, tmp_path)) as live:
        prepared.run("INSERT INTO t VALUES (1, 'x')")
        live.wait_for(wal_end(prepared))
        prepared.run("DROP PUBLICATION p", "INSERT INTO t VALUES (2, 'unseen')")
        error = live.wait_for_error()
    assert isinstance(error, PublicationMissingError)
    assert "pgsluice destroy" in error.remedy
    assert [row["values"] for row in rows_of(LogReader(tmp_path / "log"))] == [["1", "x"]]


def test_a_publication_that_goes_away_is_seen_by_quiet_clients_too(
    prepared: Database, tmp_path: Path
) -> None:
    """A database whose clients are told errors only: the warning is asked for all the same."""
    prepared.run(f'ALTER DATABASE "{prepared.name}" SET client_min_messages = error')
    test_a_publication_that_goes_away_is_fatal(prepared, tmp_path)


def test_a_log_of_another_system(prepared: Database, tmp_path: Path) -> None:
    """A log belongs to one cluster."""
    with listening(options(prepared, tmp_path)) as live:
        live.wait_for(wal_end(prepared))
    path = tmp_path / "log" / "meta.json"
    path.write_text(path.read_text().replace('"system_id": "', '"system_id": "1'))
    with listening(options(prepared, tmp_path)) as live:
        assert isinstance(live.wait_for_error(), WrongSystemError)


def test_one_listener_at_a_time(prepared: Database, tmp_path: Path) -> None:
    """The second one is told who owns the log."""
    with listening(options(prepared, tmp_path)), pytest.raises(LogLockedError, match="in use by process"):
        LogLock(tmp_path / "log" / "lock").acquire()


def test_an_old_owner_is_fenced(tmp_path: Path) -> None:
    """A process whose lock was lost finds another epoch before it writes again."""
    first, second = LogLock(tmp_path / "lock"), LogLock(tmp_path / "lock")
    first.acquire()
    handle = first._handle
    (tmp_path / "lock").rename(tmp_path / "moved")  # a shared mount that lost the lock
    (tmp_path / "moved").rename(tmp_path / "lock")
    first._handle = -1
    import os

    os.close(handle)
    second.acquire()
    first._handle = os.open(tmp_path / "lock", os.O_RDWR)
    with pytest.raises(LogLockedError, match="taken over"):
        first.check()
    first.release()
    second.release()


def test_a_server_that_was_put_back(prepared: Database, tmp_path: Path) -> None:
    """A log that ends beyond the server's WAL belongs to a future that this server never had."""
    with listening(options(prepared, tmp_path)) as live:
        live.wait_for(wal_end(prepared))
    from pgsluice.changelog.log import LogWriter
    from pgsluice.changelog.segment import read_meta

    meta = read_meta(tmp_path / "log")
    assert meta is not None
    writer = LogWriter(tmp_path / "log", meta)
    writer.watermark(Lsn(wal_end(prepared) + (1 << 30)))
    writer.sync()
    writer.close()
    with listening(options(prepared, tmp_path)) as live:
        error = live.wait_for_error()
    assert type(error) is SlotBehindError
    assert "put back to an older state" in str(error)
