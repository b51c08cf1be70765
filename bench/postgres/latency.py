"""
From a commit on the source until a reader of the target sees its row.

One-row transactions, 20 ms apart, are written by one process and looked for in the target by another, which
asks every millisecond; the clock of a row runs from the return of its commit to the answer that has it. The
same for a subscription, which is only shown: what ours is compared with is the empty job of the same Spark
session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.capture.checksum import Checksum
from bench.capture.commits import commit_steadily
from bench.capture.scene import DataSet
from bench.capture.timing import Latencies, empty_job, percentile_figure
from bench.harness import Bar, Usage, WrongResultError, figure
from bench.postgres.native import subscription
from bench.postgres.ours import pipeline
from bench.postgres.sightings import looking_for
from bench.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure
    from bench.postgres.clusters import Clusters

_TABLE: Final = "latency"
_COMMITS: Final = 250
_QUICK_COMMITS: Final = 40
_WARM_COMMITS: Final = 60


def measure(pair: Clusters) -> Iterator[Figure]:
    """The empty job, then a subscription and ours in turn."""
    empty_jobs, native, ours = [], [], []
    with pair.source.connect() as conn:
        pair.source.make_table(conn, _TABLE)
    place = _Place(pair)
    for _ in range(pair.options.repetitions):
        empty_jobs.append(empty_job(pair.source))
        native.append(place.by_subscription())
        ours.append(place.by_pipeline())
    yield figure("empty Spark job", "ms", empty_jobs)
    yield percentile_figure("commit to visible, subscription, p50", native, 50, empty_jobs)
    yield percentile_figure("commit to visible, subscription, p99", native, 99, empty_jobs)
    yield percentile_figure("commit to visible, p50", ours, 50, empty_jobs, Bar(2, "<="))
    yield percentile_figure("commit to visible, p99", ours, 99, empty_jobs, Bar(12, "<="))


class _Place:
    """Where rows are committed and seen."""

    def __init__(self, pair: Clusters) -> None:
        self._pair = pair
        self._next_key = 1
        self._count = _COMMITS if pair.options.full else _QUICK_COMMITS
        self._warm_count = _WARM_COMMITS if pair.options.full else 1

    def by_subscription(self) -> Latencies:
        """Each row from its commit to a reader of a subscription's table."""
        pair, data = self._pair, self._data()
        with pair.source.slot_of(data) as slot, pair.database() as database:
            self._make_table(database)
            with subscription(pair, _TABLE, slot, database):
                self._rows(database, self._warm_count)
                with Watch(pair.servers()) as watch:
                    milliseconds = self._rows(database, self._count)
        pair.source.drop_slot(data.slot)
        return Latencies(milliseconds, watch.usage())

    def by_pipeline(self) -> Latencies:
        """Each row from its commit to a reader of our sink's table."""
        pair, data = self._pair, self._data()
        with (
            pair.source.slot_of(data) as slot,
            pair.database() as database,
            pair.source.scratch() as directory,
        ):
            self._make_table(database)
            with pipeline(pair, data, slot, database, directory) as (_, watch):
                self._rows(database, self._warm_count)
                before = watch.usage()
                milliseconds = self._rows(database, self._count)
        pair.source.drop_slot(data.slot)
        return Latencies(milliseconds, _since(watch.usage(), before))

    def _data(self) -> DataSet:
        """What comes from now on."""
        with self._pair.source.connect() as conn:
            slot = self._pair.source.make_slot(conn, f"latency_{self._next_key}")
        return DataSet(self._pair.source.url, _TABLE, _TABLE, slot, 0, Checksum(0, 0))

    def _make_table(self, database: str) -> None:
        with self._pair.connect_target(database) as conn:
            self._pair.source.make_table(conn, _TABLE)

    def _rows(self, database: str, count: int) -> list[float]:
        first = self._next_key
        self._next_key += count
        with looking_for(self._pair.target_url(database), _TABLE, first, count) as seen:
            committed = commit_steadily(self._pair.source.url, _TABLE, first, count)
            moments = seen()
        if moments.keys() != committed.keys():
            raise WrongResultError(f"{len(moments)} rows were seen instead of {count}")
        return [(moments[key] - moment) * 1000 for key, moment in committed.items()]


def _since(usage: Usage, before: Usage) -> Usage:
    cpu = {role: seconds - before.cpu_seconds[role] for role, seconds in usage.cpu_seconds.items()}
    return Usage(cpu, usage.peak_bytes)
