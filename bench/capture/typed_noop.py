"""
Figure 2: log -> Spark -> ``noop`` with eight typed columns, and slot -> log -> Spark -> ``noop``.

Both take the way of a pipeline: a sink's loop over the log, one job per batch. Spark and its workers are
warm when the clock starts. The rows are compared afterwards, by a job over the same frames.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from bench.capture import bare
from bench.capture.checksum import Checksum, spark_checksum
from bench.capture.noop import COLUMNS, TypedNoopSink
from bench.capture.route import carry, listening, slices, spark_process, wait_for_log
from bench.harness import Bar, Sample, figure
from bench.watch import Watch
from pgsluice.schema.typed.choices import SpecialValues
from pgsluice.schema.typed.spark_rows import typed_frame
from pgsluice.source.tasks import envelope_frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.capture.scene import DataSet, Scene
    from bench.harness import Figure
    from pgsluice.changelog.position import Lsn

_FROM_LOG: Final = Bar(1.5)
_FROM_SLOT: Final = Bar(0.75)


def measure(scene: Scene) -> Iterator[Figure]:
    """Both figures, in turn with the bare loop."""
    warm(scene)
    data = scene.inserts
    end = bare.end_of(scene, data)
    bulk, from_log, from_slot = [], [], []
    for _ in range(scene.options.repetitions):
        bulk.append(bare.bulk(scene, data))
        with scene.slot_of(data) as slot, scene.scratch() as directory:
            log = directory / "log"
            from_slot.append(_slot_to_noop(scene, data, slot, log, end))
            from_log.append(_log_to_noop(scene, data, log, end))
            data.checksum.require(_typed_checksum(scene, log, end), "the typed frame")
    yield figure("log -> Spark -> typed noop", "rows/s", from_log, reference=bulk, bar=_FROM_LOG)
    yield figure("slot -> Spark -> typed noop", "rows/s", from_slot, reference=bulk, bar=_FROM_SLOT)


def warm(scene: Scene) -> None:
    """Start Spark and its workers, and let the JVM compile what is measured."""
    data = scene.warm_up
    end = bare.end_of(scene, data)
    with scene.slot_of(data) as slot, scene.scratch() as directory:
        log = directory / "log"
        with listening(data, slot, log):
            wait_for_log(log, end)
        for number in range(8):
            carry(scene, TypedNoopSink(), log, end, name=f"warm{number}")


def _slot_to_noop(scene: Scene, data: DataSet, slot: str, log: Path, end: Lsn) -> Sample:
    with listening(data, slot, log) as started:
        roles = {"listener": started.pid, "driver": os.getpid(), "spark": spark_process()}
        with Watch(roles, alone=("driver",)) as watch:
            moment = carry(scene, TypedNoopSink(), log, end)
    return Sample(data.changes / (moment - started.since), watch.usage())


def _log_to_noop(scene: Scene, data: DataSet, log: Path, end: Lsn) -> Sample:
    roles = {"driver": os.getpid(), "spark": spark_process()}
    with Watch(roles, alone=("driver",)) as watch:
        started = time.monotonic()
        moment = carry(scene, TypedNoopSink(), log, end, name="again")
    return Sample(data.changes / (moment - started), watch.usage())


def _typed_checksum(scene: Scene, log: Path, end: Lsn) -> Checksum:
    rows = total = 0
    for parts, tables in slices(log, end):
        (version,) = tables.values()
        frame = typed_frame(envelope_frame(scene.spark.get(), parts), version, SpecialValues())
        found = spark_checksum(frame.select(*COLUMNS))
        rows, total = rows + found.rows, total + found.total
    return Checksum(rows, total)
