"""
Catching up with a backlog: inserts, updates, deletes and a mix, each against a subscription.

Both begin with a slot that has the backlog and with the same files in the target; both end when a reader of
the target sees the row of the last transaction. What is in and what is not: :mod:`bench.postgres.native` and
:mod:`bench.postgres.ours`. Rows are compared by a checksum after each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.harness import Bar, Sample, figure
from bench.postgres.changes import deletes, inserts, mix, updates
from bench.postgres.clusters import per_million
from bench.postgres.native import subscription, until_visible
from bench.postgres.ours import pipeline
from bench.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure
    from bench.postgres.changes import Backlog
    from bench.postgres.clusters import Clusters

_BAR: Final = Bar(1.0)
_WARM_ROWS: Final = 200_000
_WARM_RUNS: Final = 3


def measure(pair: Clusters) -> Iterator[Figure]:
    """Each kind of change in turn with a subscription."""
    _warm(pair)
    rows = pair.options.rows
    yield from _compare(pair, "inserts", inserts(pair, "inserts", rows))
    yield from _compare(pair, "updates", updates(pair, "updates", rows * 3 // 10))
    yield from _compare(pair, "deletes", deletes(pair, "deletes", rows * 3 // 10))
    yield from _compare(pair, "mix", mix(pair, "mix", rows * 3 // 10))


def _compare(pair: Clusters, name: str, backlog: Backlog) -> Iterator[Figure]:
    native, ours = [], []
    for _ in range(pair.options.repetitions):
        native.append(_by_subscription(pair, backlog))
        ours.append(_by_pipeline(pair, backlog))
    yield figure(f"catch-up, {name}: subscription", "rows/s", native)
    yield figure(f"catch-up, {name}", "rows/s", ours, reference=native, bar=_BAR)
    backlog.discard(pair)


def _by_subscription(pair: Clusters, backlog: Backlog) -> Sample:
    with pair.source.slot_of(backlog.data) as slot, pair.database(backlog.template) as database:
        with (
            pair.connect_target(database) as reader,
            Watch(pair.servers()) as watch,
            subscription(pair, backlog.data.publication, slot, database) as since,
        ):
            moment = until_visible(reader, backlog.marker)
        _require_equal(pair, backlog, database, "a subscription")
    return _sample(backlog, moment - since, watch)


def _by_pipeline(pair: Clusters, backlog: Backlog) -> Sample:
    with (
        pair.source.slot_of(backlog.data) as slot,
        pair.database(backlog.template) as database,
        pair.source.scratch() as directory,
    ):
        with (
            pair.connect_target(database) as reader,
            pipeline(pair, backlog.data, slot, database, directory) as (started, watch),
        ):
            moment = until_visible(reader, backlog.marker)
        _require_equal(pair, backlog, database, "our sink")
    return _sample(backlog, moment - started.since, watch)


def _sample(backlog: Backlog, seconds: float, watch: Watch) -> Sample:
    changes = backlog.data.changes
    return Sample(changes / seconds, per_million(watch.usage(), changes))


def _require_equal(pair: Clusters, backlog: Backlog, database: str, whose: str) -> None:
    pair.require_equal(database, backlog.data.table, backlog.data.checksum, whose)


def _warm(pair: Clusters) -> None:
    """Spark, its workers, and the compiled passes of the driver, for every kind of change."""
    pair.source.spark.get()
    rows = min(_WARM_ROWS, pair.options.rows)
    for make in (inserts, updates, mix):
        backlog = make(pair, f"warm_{make.__name__}", rows)
        for _ in pair.warm_runs(_WARM_RUNS):
            _by_pipeline(pair, backlog)
        backlog.discard(pair)
