"""Reading a database's changes the way Spark does, with and without Spark around it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import pgsluice.spark
from pgsluice.changelog.lock import holder
from pgsluice.source.install import InitOptions, init
from pgsluice.source.spark import PgsluiceDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.source.spark import ChangeStream
    from tests.fix_pg import Database


@dataclass
class Captured:
    """A prepared database, and the state directory of the listener that the source starts for it."""

    database: Database
    state: Path
    options: dict[str, str] = field(default_factory=dict)
    readers: list[ChangeStream] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """The change log."""
        return self.state / "log"

    @property
    def listener(self) -> int | None:
        """The listener's process id, while there is one."""
        return holder(self.log / "lock")

    def with_options(self, **more: str) -> dict[str, str]:
        """The options of a query, by URL."""
        return {"url": self.database.url, "stateDir": str(self.state), **self.options, **more}

    def stream(self, **more: str) -> ChangeStream:
        """A reader as Spark makes it, in this process."""
        self.readers.append(stream(self.with_options(**more)))
        return self.readers[-1]

    def stop(self) -> None:
        """End the listener, which would otherwise wait for its lease, and whoever would bring it back."""
        for reader in self.readers:
            reader.stop()
        pid = self.listener
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: self.listener is None)
        for reader in self.readers:
            self._let_go(reader)

    @staticmethod
    def _let_go(reader: ChangeStream) -> None:
        """Take leave of the process that outlives its reader, as the end of the reader's process would."""
        listener = reader._opened._listener if reader._opened else None
        if listener is not None and listener._process is not None:
            listener._process.stop()


@contextlib.contextmanager
def capturing(database: Database, state: Path, *statements: str) -> Iterator[Captured]:
    """Make the tables, then prepare the database; ends the listener."""
    database.run(*statements)
    init(database.url, InitOptions())
    captured = Captured(database, state)
    try:
        yield captured
    finally:
        captured.stop()


def session_with_source(spark: SparkSession) -> SparkSession:
    """A session over the same Spark with settings of its own, which knows the source."""
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")  # Python sources refuse 0
    pgsluice.spark.register(session)
    return session


def stream(options: dict[str, str]) -> ChangeStream:
    """A stream reader."""
    source = PgsluiceDataSource(options)
    return source.streamReader(source.schema())


def read(reader: ChangeStream, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
    """The rows of one batch, read task by task."""
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def drain(reader: ChangeStream, start: dict[str, Any] | None = None) -> tuple[list[pa.Table], dict[str, Any]]:
    """Everything that the source has now, batch by batch, the way Trigger.AvailableNow reads it."""
    at = start or reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    found = []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        found.append(read(reader, at, end))
        reader.commit(end)
        at = end
    return found, at


def wait_until(true: Any, seconds: float = 20.0) -> None:
    """Wait for something to come true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)
