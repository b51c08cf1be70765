"""
``spark.read`` of a whole table, typed, thrown away by ``noop``; against ``psql COPY … TO STDOUT``.

Ours begins with taking the snapshot and ends with the job: loading the frame and planning its tasks are in.
Psql, which writes to /dev/null, is timed from its start to its end. Spark and its workers are warm. The rows
are compared afterwards, by a job over a frame of the same kind.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from bench.capture.checksum import spark_checksum
from bench.capture.noop import COLUMNS, throw_away
from bench.capture.route import spark_process
from bench.harness import Bar, Sample, figure
from bench.postgres.clusters import per_million
from bench.postgres.commands import copy_away, run_line
from bench.watch import Watch
from pgsluice.spark import snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure
    from bench.postgres.clusters import Clusters, FilledTable

_BAR: Final = Bar(0.8)
_WARM_RUNS: Final = 5


def measure(pair: Clusters) -> Iterator[Figure]:
    """Both in turn."""
    for _ in pair.warm_runs(_WARM_RUNS):
        _by_spark(pair, pair.warm_up)
    copied, ours = [], []
    for _ in range(pair.options.repetitions):
        copied.append(run_line(pair, copy_away(pair, pair.large.name), pair.large.rows))
        ours.append(_by_spark(pair, pair.large))
    yield figure("table -> /dev/null: psql COPY", "rows/s", copied)
    yield figure("table -> Spark -> noop: spark.read", "rows/s", ours, reference=copied, bar=_BAR)


def _by_spark(pair: Clusters, table: FilledTable) -> Sample:
    spark = pair.source.spark.get()
    roles = {"driver": os.getpid(), "spark": spark_process(), **pair.servers()}
    with Watch(roles, alone=("driver",)) as watch:
        started = time.monotonic()
        with snapshot(pair.source.url) as point:
            throw_away(point.table(spark, f"public.{table.name}").select(*COLUMNS))
        seconds = time.monotonic() - started
    with snapshot(pair.source.url) as point:
        table.checksum.require(spark_checksum(point.table(spark, f"public.{table.name}")), "Spark's frame")
    return Sample(table.rows / seconds, per_million(watch.usage(), table.rows))
