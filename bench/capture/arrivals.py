"""Who saw which row when: the memory sink with a clock, and the lines of ``pgsluice tail``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.capture.scene import ROOT
from bench.harness import WrongResultError
from pgsluice.sinks.memory import MemorySink, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pgsluice.sinks.base import Batch, SinkContext

_PRICE: Final = 4  # the column's place in a row


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that came."""

    moment: float  # of time.monotonic()
    price: str


class Arrivals:
    """Rows by their key, as they come."""

    def __init__(self) -> None:
        self._rows: dict[int, Arrival] = {}
        self._changed = threading.Condition()

    def add(self, key: int, price: str, moment: float) -> None:
        """Note a row; one that comes twice is a failure."""
        with self._changed:
            if key in self._rows:
                raise WrongResultError(f"row {key} came twice")
            self._rows[key] = Arrival(moment, price)
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget the warm-up."""
        with self._changed:
            self._rows = {}

    def rows(self) -> dict[int, Arrival]:
        """What has come since."""
        with self._changed:
            return dict(self._rows)

    def wait_for(self, keys: Sequence[int], timeout: float) -> None:
        """Wait until all keys have come."""
        wanted = set(keys)
        with self._changed:
            if not self._changed.wait_for(lambda: wanted <= self._rows.keys(), timeout):
                missing = len(wanted - self._rows.keys())
                raise WrongResultError(f"{missing} of {len(wanted)} rows did not come in {timeout:.0f} s")


class TimedMemorySink:
    """The memory sink; notes when each batch was applied."""

    def __init__(self) -> None:
        self.arrivals = Arrivals()
        self._store = MemoryStore()
        self._sink = MemorySink(self._store)

    def open(self, context: SinkContext) -> str | None:
        """As the memory sink does."""
        return self._sink.open(context)

    def apply(self, batch: Batch) -> None:
        """Apply, then look at the clock."""
        before = len(self._store.batches)
        self._sink.apply(batch)
        moment = time.monotonic()
        for chunk in self._store.batches[before:]:
            for values in chunk["values"].to_pylist():
                self.arrivals.add(int(values[0]), values[_PRICE], moment)

    def close(self) -> None:
        """As the memory sink does."""
        self._sink.close()


@contextmanager
def tail_lines(url: str, state_dir: Path) -> Iterator[tuple[Arrivals, int]]:
    """The lines of ``pgsluice tail`` over the log of a state directory, and its process."""
    arrivals = Arrivals()
    command = [
        sys.executable, "-m", "pgsluice.cli.main", "--log-level", "error", "tail", "--json",
        "--from", "earliest", "--state-dir", str(state_dir),
    ]  # fmt: skip
    environment = {**os.environ, "PGSLUICE_SOURCE__POSTGRES__URL": url}
    tail = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    reader = threading.Thread(target=_read, args=(tail, arrivals), daemon=True)
    reader.start()
    try:
        yield arrivals, tail.pid
    finally:
        tail.terminate()
        tail.wait()
        reader.join()


def _read(tail: subprocess.Popen[str], arrivals: Arrivals) -> None:
    assert tail.stdout is not None
    for line in tail.stdout:
        moment = time.monotonic()
        values = json.loads(line)["values"]
        arrivals.add(int(values["id"]), values["price"], moment)
