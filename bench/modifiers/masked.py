"""Catching up with a million inserts whose eight columns have rules, against the same without rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.harness import Bar, Sample, figure
from bench.modifiers.people import TABLE, backlog, chain, checksum
from bench.postgres.clusters import per_million
from bench.postgres.native import until_visible
from bench.postgres.ours import pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure
    from bench.postgres.changes import Backlog
    from bench.postgres.clusters import Clusters
    from pgsluice.modifiers.chain import Chain

_BAR: Final = Bar(0.6)
_WARM_RUNS: Final = 2


def measure(pair: Clusters) -> Iterator[Figure]:
    """Without rules and with them, in turn."""
    pair.source.spark.get()
    waiting = backlog(pair)
    for _ in pair.warm_runs(_WARM_RUNS):
        _sample(pair, waiting, None)
        _sample(pair, waiting, chain())
    plain, masked = [], []
    for _ in range(pair.options.repetitions):
        plain.append(_sample(pair, waiting, None))
        masked.append(_sample(pair, waiting, chain()))
    yield figure("catch-up, inserts: no rules", "rows/s", plain)
    yield figure("catch-up, inserts, 8 columns masked", "rows/s", masked, reference=plain, bar=_BAR)
    waiting.discard(pair)


def _sample(pair: Clusters, waiting: Backlog, rules: Chain | None) -> Sample:
    with (
        pair.source.slot_of(waiting.data) as slot,
        pair.database(waiting.template) as database,
        pair.source.scratch() as directory,
    ):
        with (
            pair.connect_target(database) as reader,
            pipeline(pair, waiting.data, slot, database, directory, rules) as (started, watch),
        ):
            moment = until_visible(reader, waiting.marker)
        with pair.source.connect() as source, pair.connect_target(database) as target:
            expected = checksum(source, masked=rules is not None)
            expected.require(checksum(target, masked=False), f"{TABLE}, written by our sink,")
    changes = waiting.data.changes
    return Sample(changes / (moment - started.since), per_million(watch.usage(), changes))
