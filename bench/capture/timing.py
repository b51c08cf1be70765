"""Rows in time: what latencies are compared with, and how those of some repetitions become figures."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.capture.route import spark_process
from bench.harness import Sample, figure, percentile
from bench.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.capture.scene import Scene
    from bench.harness import Bar, Figure, Usage

_WARM_JOBS, _JOBS = 20, 50


@dataclass(frozen=True, slots=True)
class Latencies:
    """One repetition: the milliseconds of each row, and what the processes took for all of them."""

    milliseconds: list[float]
    usage: Usage


def empty_job(scene: Scene) -> Sample:
    """Milliseconds of Spark's smallest job."""
    spark = scene.spark.get()
    times = []
    with Watch({"driver": os.getpid(), "spark": spark_process()}, alone=("driver",)) as watch:
        for _ in range(_WARM_JOBS + _JOBS):
            started = time.monotonic()
            spark.range(1).write.format("noop").mode("overwrite").save()
            times.append((time.monotonic() - started) * 1000)
    return Sample(statistics.median(times[_WARM_JOBS:]), watch.usage())


def percentile_figure(
    name: str,
    repetitions: Sequence[Latencies],
    percent: int,
    empty_jobs: Sequence[Sample],
    bar: Bar | None = None,
) -> Figure:
    """The figure of one percentile, against the empty job."""
    samples = [Sample(percentile(each.milliseconds, percent), each.usage) for each in repetitions]
    return figure(name, "ms", samples, reference=empty_jobs, bar=bar)
