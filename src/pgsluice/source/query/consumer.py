"""
The consumer of one query: what keeps the segments that it has not committed yet.

Spark commits a batch only when it builds the next one, and may never say that a query has ended. So a
consumer stays until it is dropped, or until nobody has seen it for :data:`EXPIRY_SECONDS`.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.lock import LogLock
from pgsluice.errors import ConfigError, LogLockedError

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.changelog.position import Lsn

EXPIRY_SECONDS: Final = 7 * 86400.0
PREFIX: Final = "spark:"  # sinks of a pipeline are consumers too, and never expire
_LOCK_SECONDS: Final = 20.0  # that an earlier run of the query has to end


class QueryConsumer:
    """The right of one running query to let go of its part of the log."""

    def __init__(self, log: Path, name: str) -> None:
        self._consumers = Consumers(log)
        self._name = name
        self._lsn: Lsn | None = None
        self._guard = threading.Lock()
        (log / "consumers").mkdir(exist_ok=True)
        self._lock = LogLock(log / "consumers" / f"{_file_name(name)}.lock")

    def acquire(self) -> None:
        """Take the name; two running queries with one name would throw away each other's segments."""
        try:
            self._lock.acquire(wait=_LOCK_SECONDS)
        except LogLockedError as exc:
            raise ConfigError(
                f"process {exc.fields.get('pid')}, another query, reads this log as consumer {self._name!r}",
                remedy='Give each query its own .option("consumer", "<name>")',
                consumer=self._name,
            ) from None

    def release(self, lsn: Lsn) -> None:
        """Say that nothing up to ``lsn`` is needed any more."""
        with self._guard:
            self._lsn = lsn
            self._consumers.release(PREFIX + self._name, lsn)

    def restore(self, lsn: Lsn | None) -> None:
        """Hold what was held before, which may be nothing."""
        if lsn is not None:
            self.release(lsn)
            return
        with self._guard:
            self._lsn = None
            self._consumers.drop(PREFIX + self._name)

    def touch(self) -> None:
        """Say that the query lives."""
        with self._guard:
            if self._lsn is not None:
                self._consumers.release(PREFIX + self._name, self._lsn)

    def close(self) -> None:
        """Give the name back; what it holds stays held."""
        self._lock.release()


def held_from(log: Path, name: str) -> Lsn | None:
    """Up to where the query had committed when it last said so; None for a new one."""
    known = {consumer.name: consumer.lsn for consumer in Consumers(log).all()}
    return known.get(PREFIX + name)


def drop(log: Path, name: str) -> None:
    """Forget a query for good: it holds nothing back any more."""
    Consumers(log).drop(PREFIX + name)


def expire(log: Path, older_than: float = EXPIRY_SECONDS) -> list[str]:
    """Forget the queries that nobody has seen for so many seconds; gives their names."""
    consumers = Consumers(log)
    limit = time.time() - older_than
    old = [c.name for c in consumers.all() if c.name.startswith(PREFIX) and c.seen < limit]
    for name in old:
        consumers.drop(name)
    return [name.removeprefix(PREFIX) for name in old]


def _file_name(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else f"%{ord(c):x}" for c in name)
