"""A listener in a thread of the test, and what the server says about its slot."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from pgsluice.changelog.lock import LogLock
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.errors import SluiceError
from pgsluice.source.listener import Listener, ListenerOptions
from pgsluice.source.report import ListenerReport, read_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fix_pg import Database

PATIENCE = 120.0  # seconds; a busy machine must not fail a test


class Listening:
    """A listener in a thread."""

    def __init__(self, options: ListenerOptions) -> None:
        self.options = options
        options.log.mkdir(parents=True, exist_ok=True)
        self._lock = LogLock(options.log / "lock")
        self._lock.acquire()
        self.listener = Listener(options, self._lock)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.listener.run()
        except SluiceError as exc:
            self.error = exc

    def wait_for(self, lsn: Lsn, timeout: float = PATIENCE) -> LogReader:
        """Until the log has reached a position."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self.error is None:
            with contextlib.suppress(SluiceError, OSError):
                reader = LogReader(self.options.log)
                if reader.end >= lsn:
                    return reader
            time.sleep(0.02)
        raise AssertionError(f"the log did not reach {lsn}: {self.error or read_report(self.options.log)}")

    def wait_for_report(self, true: Callable[[ListenerReport], bool]) -> ListenerReport:
        """Until the listener says something of itself."""
        said = wait_until(
            lambda: (report := read_report(self.options.log)) is not None and true(report) and report,
            lambda: f"{self.error or read_report(self.options.log)}",
        )
        assert isinstance(said, ListenerReport)
        return said

    def wait_for_error(self, timeout: float = PATIENCE) -> BaseException:
        """What ended it."""
        self._thread.join(timeout)
        assert self.error is not None
        return self.error

    def stop(self) -> None:
        """End it."""
        self.listener.stop()
        self._thread.join()
        self.listener.close()
        self._lock.release()


def slot_of(database: Database) -> str:
    """Slot names are of the whole server."""
    return f"s_{database.name}"


def options(database: Database, tmp_path: Path, **other: object) -> ListenerOptions:
    """A listener's options."""
    url = str(other.pop("url", database.url))
    return ListenerOptions(url, slot_of(database), ("p",), tmp_path / "log", 1 << 30, **other)  # type: ignore[arg-type]


@contextlib.contextmanager
def listening(given: ListenerOptions) -> Iterator[Listening]:
    """A listener while the block runs."""
    made = Listening(given)
    try:
        yield made
    finally:
        made.stop()


def wal_end(database: Database) -> Lsn:
    """Where the server's WAL ends."""
    return Lsn.parse(str(database.rows("SELECT pg_current_wal_lsn()::text")[0][0]))


def confirmed(database: Database) -> Lsn:
    """The slot's confirmed position."""
    found = database.rows(
        f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{slot_of(database)}'"
    )
    return Lsn.parse(str(found[0][0]))


def wait_until_confirmed(database: Database, lsn: Lsn) -> None:
    """The server hears of progress within moments."""
    wait_until(lambda: confirmed(database) >= lsn, lambda: f"{confirmed(database)} < {lsn}")


def wait_until(true: Callable[[], Any], otherwise: Callable[[], str] = lambda: "it did not come true") -> Any:
    """Ask until the answer is true; gives the answer."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := true()):
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)
    return answer


def prepare(database: Database) -> None:
    """A table, a publication and a slot."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE TABLE unpublished (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t",
        f"SELECT pg_create_logical_replication_slot('{slot_of(database)}', 'pgoutput')",
    )


def server_process(database: Database) -> int | None:
    """The process of the server that reads the slot for us."""
    query = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot_of(database)}'"
    pid: int | None = database.rows(query)[0][0]
    return pid
