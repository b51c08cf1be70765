"""
Figure 1: the listener into the durable log, against the bare loop, without and with TLS.

Its CPU is that of the listener's process, user and system, from the beginning of the stream to the moment
when the last row is durable; the start of Python is not in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.capture import bare, tls
from bench.capture.route import listening, log_checksum, wait_for_log
from bench.harness import Bar, Sample, better, figure
from bench.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.capture.scene import DataSet, Scene
    from bench.harness import Figure
    from pgsluice.changelog.position import Lsn

_RATE: Final = Bar(0.9)
_CPU: Final = Bar(0.3, "<=", of="value")
_MILLION: Final = 1_000_000


def measure(scene: Scene) -> Iterator[Figure]:
    """The bare loops, the listener's rate and its CPU; then the same with TLS."""
    data = scene.inserts
    end = bare.end_of(scene, data)
    listen(scene, data, end)  # a new installation compiles and keeps its kernels at the first run
    recvlogical, bulk, listener = [], [], []
    for _ in range(scene.options.repetitions):
        recvlogical.append(bare.pg_recvlogical(scene, data, end))
        bulk.append(bare.bulk(scene, data))
        listener.append(listen(scene, data, end))
    yield figure("bare loop: pg_recvlogical", "rows/s", recvlogical)
    yield figure("bare loop: bulk reader", "rows/s", bulk)
    reference = better(recvlogical, bulk)
    yield figure("listener -> log", "rows/s", listener, reference=reference, bar=_RATE)
    yield _cpu_figure("listener -> log, CPU per 1 M rows", listener, data, bar=_CPU)
    yield from tls.measure(scene.options)


def listen(scene: Scene, data: DataSet, end: Lsn, *, url: str | None = None) -> Sample:
    """One run of the listener; the log is compared with the source afterwards."""
    with scene.slot_of(data) as slot, scene.scratch() as directory:
        log = directory / "log"
        with listening(data, slot, log, url=url) as started, Watch({"listener": started.pid}) as watch:
            moment = wait_for_log(log, end)
        data.checksum.require(log_checksum(log, end), "the log")
    return Sample(data.changes / (moment - started.since), watch.usage())


def _cpu_figure(name: str, samples: list[Sample], data: DataSet, *, bar: Bar | None = None) -> Figure:
    per_million = [Sample(sample.usage.cpu * _MILLION / data.changes) for sample in samples]
    return figure(name, "s", per_million, bar=bar)
