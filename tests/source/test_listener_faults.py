"""The listener when its connection, its disk or its server fails: what is confirmed, and what comes again."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from structlog.testing import capture_logs

from pgsluice.changelog import log
from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.log import LogWriter
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.source.listener import _BACKOFF, ListenerOptions
from pgsluice.source.report import ListenerReport, read_report
from tests.fix_pg import Database
from tests.source.listening import (
    confirmed,
    listening,
    options,
    prepare,
    server_process,
    slot_of,
    wait_until,
    wait_until_confirmed,
    wal_end,
)
from tests.source.reading import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_proxy import DatabaseProxy


def is_streaming(report: ListenerReport) -> bool:
    """Whether the listener reads."""
    return report.state == "streaming"


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "open-transaction"])
def test_an_idle_connection_is_kept(prepared: Database, tmp_path: Path, busy: bool) -> None:
    """Silence of more than three wal_sender_timeouts, also in a long transaction: the same connection."""
    prepared.run(f"ALTER DATABASE {prepared.name} SET wal_sender_timeout = '2s'")
    with listening(options(prepared, tmp_path)) as live, psycopg.connect(prepared.url) as writer:
        if busy:
            writer.execute("INSERT INTO t VALUES (1, 'open for long')")
        live.wait_for_report(is_streaming)
        process = server_process(prepared)
        assert process is not None
        until = time.monotonic() + 6.5
        while time.monotonic() < until:
            assert server_process(prepared) == process
            time.sleep(0.2)
        writer.commit()
        reader = live.wait_for(wal_end(prepared))
        assert server_process(prepared) == process
    assert [row["values"] for row in rows_of(reader)] == ([["1", "open for long"]] if busy else [])


def test_pauses_grow_and_begin_anew(prepared: Database, proxy: DatabaseProxy, tmp_path: Path) -> None:
    """Between two tries the listener waits ever longer; once it has streamed it begins with the shortest."""

    def pauses() -> list[float]:
        return [entry["seconds"] for entry in logs if entry["event"] == "connection lost, trying again"]

    with capture_logs() as logs, listening(options(prepared, tmp_path, url=proxy.url)) as live:
        live.wait_for_report(is_streaming)
        proxy.refuse()
        wait_until(lambda: len(pauses()) >= 5)
        assert pauses()[:5] == [0.1, 0.2, 0.5, 1.0, 2.0] == list(_BACKOFF[:5])
        proxy.accept()
        live.wait_for_report(is_streaming)
        before = len(pauses())
        proxy.refuse()
        wait_until(lambda: len(pauses()) >= before + 3)
        assert pauses()[before : before + 3] == [0.1, 0.2, 0.5]
        proxy.accept()


class ForgetfulDisk:
    """
    Fails one sync, and does what Linux may do then: the pages are gone and the next sync succeeds.

    So who tries the same sync again, and believes it, keeps zeros.
    """

    def __init__(self, suffix: str, at_failure: Callable[[], None]) -> None:
        self.failures = 0
        self.armed = False
        self._suffix = suffix
        self._at_failure = at_failure
        self._synced: dict[str, int] = {}  # sizes of files that are safe

    def sync(self, handle: int) -> None:
        """In place of fdatasync."""
        name = str(Path(f"/proc/self/fd/{handle}").readlink())
        size = os.fstat(handle).st_size
        safe = self._synced.get(name, 0)
        if self.armed and name.endswith(self._suffix) and size > safe:
            self.armed = False
            self.failures += 1
            os.pwrite(handle, bytes(size - safe), safe)
            self._at_failure()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._synced[name] = size


@pytest.mark.parametrize("suffix", [".seg", ".idx"])
def test_a_failed_sync_is_never_tried_again(
    prepared: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """EIO once: the log is cut at its durable end, the rest is read from the slot again, each row once."""
    positions: list[tuple[Lsn, Lsn]] = []

    def note() -> None:
        assert live.listener._writer is not None
        positions.append((confirmed(prepared), live.listener._writer.end))

    disk = ForgetfulDisk(suffix, note)
    monkeypatch.setattr(log, "_sync", disk.sync)
    with listening(options(prepared, tmp_path)) as live:
        prepared.run("INSERT INTO t VALUES (0, 'before')")
        live.wait_for(wal_end(prepared))
        disk.armed = True
        for number in range(1, 21):
            prepared.run(f"INSERT INTO t VALUES ({number}, 'x')")
        wait_until(lambda: disk.failures)
        reader = live.wait_for(wal_end(prepared))
        found = rows_of(reader)
        wait_until_confirmed(prepared, wal_end(prepared))
        assert confirmed(prepared) <= LogReader(tmp_path / "log").end
        report = read_report(tmp_path / "log")
        assert report is not None
        assert (disk.failures, report.reconnects) == (1, 1)
    assert [row["values"][0] for row in found] == [str(number) for number in range(21)]
    ((told, durable),) = positions
    assert told <= durable


def test_only_what_is_durable_is_confirmed(
    prepared: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk takes its time the slot stays where it is, however often the server hears from us."""
    disk_works = threading.Event()
    disk_works.set()
    sync = LogWriter.sync

    def slow_sync(writer: LogWriter) -> Lsn:
        disk_works.wait()
        return sync(writer)

    def told_at() -> object:
        query = f"SELECT reply_time FROM pg_stat_replication WHERE pid = {process}"
        return prepared.rows(query)[0][0]

    monkeypatch.setattr(LogWriter, "sync", slow_sync)
    with listening(options(prepared, tmp_path)) as live:
        try:
            live.wait_for_report(is_streaming)
            wait_until_confirmed(prepared, wal_end(prepared))
            process = server_process(prepared)
            disk_works.clear()
            before = wal_end(prepared)
            prepared.run("INSERT INTO t VALUES (1, 'in memory only')")
            (segment,) = (tmp_path / "log").glob("*.seg")
            wait_until(lambda: b"in memory only" in segment.read_bytes())
            for _ in range(3):
                last = told_at()
                wait_until(lambda last=last: told_at() != last)
            assert confirmed(prepared) <= before
        finally:
            disk_works.set()
        wait_until_confirmed(prepared, wal_end(prepared))
        assert confirmed(prepared) <= LogReader(tmp_path / "log").end


def test_a_server_restarts_while_the_log_is_full(own_server: EmbeddedPostgres, tmp_path: Path) -> None:
    """No connection is held then, so an orderly shutdown does not wait for us; afterwards all rows come."""
    source = Database("postgres", own_server)
    prepare(source)
    small = ListenerOptions(
        source.url, slot_of(source), ("p",), tmp_path / "log", max_bytes=500_000, segment_bytes=50_000
    )
    consumers = Consumers(tmp_path / "log")
    consumers.release("slow", Lsn(0))
    with listening(small) as live:
        for start in range(1, 10_000, 1000):
            source.run(
                f"INSERT INTO t SELECT g, repeat('v', 50) FROM generate_series({start}, {start + 999}) g"
            )
        live.wait_for_report(lambda report: report.state == "full")
        own_server.restart("fast")
        source.run("UPDATE t SET v = 'after the restart' WHERE id > 9900", "DELETE FROM t WHERE id <= 100")
        end = wal_end(source)
        arrived: dict[str, str] = {}
        position = LogReader(tmp_path / "log").first_lsn
        while position < end:
            reader = live.wait_for(Lsn(position + 1))
            for row in rows_of(reader, after=position):
                if row["op"] == "D":
                    del arrived[row["old"][0]]
                else:
                    arrived[row["values"][0]] = row["values"][1]
            position = reader.end
            consumers.release("slow", position)
    assert arrived == {str(key): value for key, value in source.rows("SELECT id, v FROM t")}
    assert len(arrived) == 9900


def test_what_follows_the_answer_to_start_replication_is_not_lost(
    prepared: Database, proxy: DatabaseProxy, tmp_path: Path
) -> None:
    """The first rows come in one piece with CopyBothResponse: libpq must not have read any of it."""
    prepared.run("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 20) g")
    proxy.gather(after=b"START_REPLICATION", until=b"row 20")
    with listening(options(prepared, tmp_path, url=proxy.url)) as live:
        reader = live.wait_for(wal_end(prepared))
    assert proxy.gathered is not None
    assert proxy.gathered[:1] == b"W"  # CopyBothResponse
    assert [row["values"][0] for row in rows_of(reader)] == [str(n) for n in range(1, 21)]
