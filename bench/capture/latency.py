"""
Figure 5: from a commit to the ``memory`` sink, and to a line of ``pgsluice tail``, row by row.

One-row transactions, 20 ms apart, are written by another process; the clock of each row runs from the
return of its commit to the return of the sink's ``apply``. What it is compared with is the empty job of the
same Spark session, measured before each repetition.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.capture.arrivals import Arrivals, TimedMemorySink, tail_lines
from bench.capture.commits import commit_steadily, insert_row
from bench.capture.modifiers import DOUBLED_PRICE, PLAIN_PRICE, keep_sold, reprice
from bench.capture.route import listening, make_loop, spark_process
from bench.capture.scene import DataSet
from bench.capture.timing import Latencies, empty_job, percentile_figure
from bench.harness import Bar, WrongResultError, figure
from bench.watch import Watch
from pgsluice.modifiers.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.capture.scene import Scene
    from bench.harness import Figure
    from pgsluice.pipeline.loop import SinkLoop

_COMMITS: Final = 250
_WARM_COMMITS: Final = 60  # one at a time: as many batches, so that the JVM has compiled the way
_PATIENCE: Final = 30.0


def measure(scene: Scene) -> Iterator[Figure]:
    """The empty job, then each way in turn."""
    chain = Chain([keep_sold, reprice])
    empty_jobs, chained, unchained, tailed = [], [], [], []
    with scene.connect() as connection:
        scene.make_table(connection, "latency")
        slot = scene.make_slot(connection, "latency_master")
        checksum = scene.warm_up.checksum  # of no use here: the rows are compared one by one
        place = _Place(scene, DataSet(scene.url, "latency", "latency", slot, 0, checksum))
        for _ in range(scene.options.repetitions):
            empty_jobs.append(empty_job(scene))
            chained.append(place.to_memory(chain))
            unchained.append(place.to_memory(Chain()))
            tailed.append(place.to_tail())
    yield figure("empty Spark job", "ms", empty_jobs)
    yield percentile_figure("filter and projection -> memory, p50", chained, 50, empty_jobs, Bar(3, "<="))
    yield percentile_figure("filter and projection -> memory, p99", chained, 99, empty_jobs, Bar(15, "<="))
    yield percentile_figure("empty chain -> memory, p50", unchained, 50, empty_jobs, Bar(1.3, "<="))
    yield percentile_figure("empty chain -> memory, p99", unchained, 99, empty_jobs)
    yield percentile_figure("tail, p50", tailed, 50, empty_jobs, Bar(0.7, "<="))
    yield percentile_figure("tail, p99", tailed, 99, empty_jobs)


class _Place:
    """Where rows are committed and arrive."""

    def __init__(self, scene: Scene, data: DataSet) -> None:
        self._scene = scene
        self._data = data
        self._next_key = 1

    def to_memory(self, chain: Chain) -> Latencies:
        """Each row from its commit to the memory sink."""
        with self._listening() as (log, listener):
            sink = TimedMemorySink()
            with _running(make_loop(self._scene, sink, log, chain=chain)):
                self._warm(sink.arrivals)
                roles = {"listener": listener, "driver": os.getpid(), "spark": spark_process()}
                with Watch(roles, alone=("driver",)) as watch:
                    committed, kept = self._commit_and_wait(sink.arrivals, _COMMITS, chain)
        price = DOUBLED_PRICE if chain else PLAIN_PRICE
        return Latencies(_milliseconds(committed, sink.arrivals, kept, price), watch.usage())

    def to_tail(self) -> Latencies:
        """Each row from its commit to the line that ``pgsluice tail`` prints."""
        with self._listening() as (log, listener), tail_lines(self._data.url, log.parent) as (arrivals, tail):
            self._warm(arrivals)
            with Watch({"listener": listener, "tail": tail}) as watch:
                committed, kept = self._commit_and_wait(arrivals, _COMMITS, Chain())
        return Latencies(_milliseconds(committed, arrivals, kept, PLAIN_PRICE), watch.usage())

    @contextmanager
    def _listening(self) -> Iterator[tuple[Path, int]]:
        """A log that begins now, and the process of its listener."""
        with self._scene.connect() as connection:
            slot = self._scene.make_slot(connection, f"latency_{self._next_key}")
        try:
            with self._scene.scratch() as directory:
                log = directory / "log"
                with listening(self._data, slot, log) as started:
                    yield log, started.pid
        finally:
            self._scene.drop_slot(slot)

    def _warm(self, arrivals: Arrivals) -> None:
        """Rows one after the other, each waited for, then forgotten."""
        with self._scene.connect() as connection:
            for _ in range(_WARM_COMMITS):
                (key,) = self._keys(1)
                self._next_key += 1
                insert_row(connection, self._data.table, key, 1)
                arrivals.wait_for([key], _PATIENCE)
        arrivals.clear()

    def _commit_and_wait(
        self, arrivals: Arrivals, count: int, chain: Chain
    ) -> tuple[dict[int, float], list[int]]:
        """The moments of the commits, and the keys that arrived: all but those that the chain drops."""
        kept = [key for key in self._keys(count) if key % 10 or not chain]
        committed = self._commit(count)
        arrivals.wait_for(kept, _PATIENCE)
        return committed, kept

    def _keys(self, count: int) -> list[int]:
        return list(range(self._next_key, self._next_key + count))

    def _commit(self, count: int) -> dict[int, float]:
        """Commit rows; gives the moment of each key."""
        committed = commit_steadily(self._data.url, self._data.table, self._next_key, count)
        self._next_key += count
        return committed


@contextmanager
def _running(loop: SinkLoop) -> Iterator[None]:
    """A loop at work; its own error is a better reason than rows that don't come."""
    loop.open()
    loop.start()
    try:
        yield
    finally:
        loop.stop()
        loop.join()
        if loop.error is not None:
            raise loop.error


def _milliseconds(
    committed: dict[int, float], arrivals: Arrivals, kept: list[int], price: str
) -> list[float]:
    found = arrivals.rows()
    if sorted(found) != kept:
        raise WrongResultError(f"{len(found)} rows arrived instead of {len(kept)}")
    wrong = [key for key, row in found.items() if row.price != price]
    if wrong:
        raise WrongResultError(f"the price of row {wrong[0]} is {found[wrong[0]].price}, not {price}")
    return [(row.moment - committed[key]) * 1000 for key, row in found.items()]
