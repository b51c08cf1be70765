"""Writers at the same time, each with a script of its own, who write as much as they are told to."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors

from tests.workload.script import prepared_name, transactions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.workload.script import World

WRITERS = 3
_RESTART_SECONDS = 60.0

# Writers get in each other's way; then the server takes a transaction back as a whole, as it should.
_REFUSALS = (
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.SerializationFailure,
    errors.UniqueViolation,
    errors.ForeignKeyViolation,
)


@dataclass(slots=True)
class Tally:
    """What was done."""

    changes: int = 0  # rows of statements that were committed
    transactions: int = 0
    refused: int = 0


class Writers:
    """Three writers, while a block runs."""

    def __init__(self, url: str, world: World) -> None:
        self._url = url
        self._ready = threading.Condition()
        self._left = 0  # changes that may still be made
        self._busy = 0
        self._ending = False
        self._error: BaseException | None = None
        self.tally = Tally()
        self._threads = [
            threading.Thread(target=self._write, args=(number, transactions(world, number)), daemon=True)
            for number in range(1, WRITERS + 1)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._ready:
            self._ending = True
            self._ready.notify_all()
        for thread in self._threads:
            thread.join()

    def go_on(self, changes: int) -> None:
        """Let them make so many changes more; returns at once."""
        with self._ready:
            self._left = max(self._left, 0) + changes
            self._ready.notify_all()

    def wait(self) -> None:
        """Until they have made them all, and nothing is open."""
        with self._ready:
            self._ready.wait_for(lambda: self._error or (self._left <= 0 and not self._busy))
        if self._error is not None:
            raise self._error

    def _write(self, number: int, script: Iterable[list[str]]) -> None:
        conn = None
        try:
            for statements in script:
                if not self._may_begin():
                    return
                conn = conn or connect(self._url, number)
                try:
                    self._count(run_transaction(conn, statements))
                except psycopg.OperationalError:
                    if not conn.closed:
                        raise
                    conn = None  # the server was restarted, and may have kept the transaction or not
                    self._count(None)
        except BaseException as exc:  # noqa: BLE001 - raised where it is waited for
            exc.add_note(f"writer {number}")
            with self._ready:
                self._error = exc
                self._ready.notify_all()
        finally:
            if conn is not None:
                conn.close()

    def _may_begin(self) -> bool:
        with self._ready:
            self._ready.wait_for(lambda: self._ending or self._left > 0)
            self._busy += not self._ending
            return not self._ending

    def _count(self, changes: int | None) -> None:
        with self._ready:
            self._busy -= 1
            self.tally.transactions += 1
            self.tally.refused += changes is None
            self.tally.changes += changes or 0
            self._left -= changes or 0
            self._ready.notify_all()


def connect(url: str, writer: int) -> psycopg.Connection:
    """A writer's connection; a server that is being restarted is waited for."""
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            conn = psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
            continue
        conn.execute("SET deadlock_timeout = '50ms'; SET lock_timeout = '5s'")
        name = prepared_name(writer)
        left = "SELECT FROM pg_prepared_xacts WHERE gid = %s AND database = current_database()"
        if conn.execute(left, (name,)).rowcount:
            conn.execute(f"COMMIT PREPARED '{name}'")  # the connection was lost just before that
        return conn


def run_transaction(conn: psycopg.Connection, statements: Iterable[str]) -> int | None:
    """Carry a transaction out; the changes that it made, or None if the server took it back."""
    changes = 0
    before: dict[str, int] = {}  # by savepoint
    try:
        for statement in statements:
            done = conn.execute(statement)
            word, _, rest = statement.partition(" ")
            if word == "SAVEPOINT":
                before[rest] = changes
            elif word == "ROLLBACK":
                changes = before.get(rest.removeprefix("TO "), 0)
            elif word in ("INSERT", "UPDATE", "DELETE", "WITH"):
                changes += done.rowcount
    except _REFUSALS:
        conn.execute("ROLLBACK")
        return None
    return changes
