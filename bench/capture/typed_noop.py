"""
Figure 2: log -> Spark -> ``noop`` with eight typed columns, and slot -> log -> Spark -> ``noop``.

By the loop of a pipeline (one job per batch), and by the data source that Spark users call; both type
rows in the tasks that decode them. Spark and its workers are warm when the clock starts. The
rows are compared afterwards, by jobs over the same frames.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from bench.capture import bare
from bench.capture.checksum import Checksum, spark_checksum
from bench.capture.noop import COLUMNS, TypedNoopSink, throw_away
from bench.capture.route import carry, listening, slices, spark_process, wait_for_log
from bench.harness import Bar, Sample, WrongResultError, figure
from bench.watch import Watch
from pgsluice.schema.typed.choices import SpecialValues
from pgsluice.source.tasks import typed_part_frame
from pgsluice.spark import register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.capture.scene import DataSet, Scene
    from bench.harness import Figure
    from pgsluice.changelog.position import Lsn

_FROM_LOG: Final = Bar(1.5)
_FROM_SLOT: Final = Bar(0.75)
_WARM_RUNS: Final = 8
_STREAM_NOTE: Final = "start and end of the query included"


def measure(scene: Scene) -> Iterator[Figure]:
    """All of them, in turn with the bare loop."""
    _warm(scene)
    data = scene.inserts
    end = bare.end_of(scene, data)
    bulk, slot_loop, log_loop, log_read, log_stream = [], [], [], [], []
    for _ in range(scene.options.repetitions):
        bulk.append(bare.bulk(scene, data))
        with scene.slot_of(data) as slot, scene.scratch() as directory:
            slot_loop.append(_slot_to_loop(scene, data, slot, directory / "log", end))
            log_loop.append(_log_to_loop(scene, data, directory / "log", end))
            log_read.append(_log_to_read(scene, data, directory / "log"))
            log_stream.append(_log_to_stream(scene, data, directory / "log"))
    yield figure("log -> Spark -> noop: loop", "rows/s", log_loop, reference=bulk, bar=_FROM_LOG)
    yield figure("log -> Spark -> noop: spark.read", "rows/s", log_read, reference=bulk, bar=_FROM_LOG)
    yield figure("log -> Spark -> noop: readStream", "rows/s", log_stream, reference=bulk, note=_STREAM_NOTE)
    yield figure("slot -> Spark -> noop: loop", "rows/s", slot_loop, reference=bulk, bar=_FROM_SLOT)


def _warm(scene: Scene) -> None:
    """Start Spark and its workers, and let the JVM compile what is measured."""
    register(scene.spark.get())
    data = scene.warm_up
    end = bare.end_of(scene, data)
    with scene.slot_of(data) as slot, scene.scratch() as directory:
        log = directory / "log"
        with listening(data, slot, log):
            wait_for_log(log, end)
        _stream(scene, data, log)
        for number in range(_WARM_RUNS):
            _loop(scene, log, end, name=f"warm{number}")
            throw_away(_source(scene, log, data))


def _slot_to_loop(scene: Scene, data: DataSet, slot: str, log: Path, end: Lsn) -> Sample:
    return _from_slot(data, slot, log, lambda: _loop(scene, log, end))


def _log_to_loop(scene: Scene, data: DataSet, log: Path, end: Lsn) -> Sample:
    sample = _from_log(data, lambda: _loop(scene, log, end, name="again"))
    data.checksum.require(_loop_checksum(scene, log, end), "the loop's frames")
    return sample


def _log_to_read(scene: Scene, data: DataSet, log: Path) -> Sample:
    sample = _from_log(data, lambda: throw_away(_source(scene, log, data)))
    data.checksum.require(spark_checksum(_source(scene, log, data)), "the source's frame")
    return sample


def _log_to_stream(scene: Scene, data: DataSet, log: Path) -> Sample:
    return _from_log(data, lambda: _stream(scene, data, log))


def _from_slot(data: DataSet, slot: str, log: Path, work: Callable[[], float]) -> Sample:
    with listening(data, slot, log) as started:
        roles = {"listener": started.pid, "driver": os.getpid(), "spark": spark_process()}
        with Watch(roles, alone=("driver",)) as watch:
            moment = work()
    return Sample(data.changes / (moment - started.since), watch.usage())


def _from_log(data: DataSet, work: Callable[[], float | None]) -> Sample:
    with Watch({"driver": os.getpid(), "spark": spark_process()}, alone=("driver",)) as watch:
        started = time.monotonic()
        moment = work() or time.monotonic()
    return Sample(data.changes / (moment - started), watch.usage())


def _loop(scene: Scene, log: Path, end: Lsn, *, name: str = "target") -> float:
    return carry(scene, TypedNoopSink(), log, end, name=name)


def _source(scene: Scene, log: Path, data: DataSet) -> DataFrame:
    reader = scene.spark.get().read.format("pgsluice").option("log", str(log))
    return reader.option("table", f"public.{data.table}").load().select(*COLUMNS)


def _stream(scene: Scene, data: DataSet, log: Path) -> None:
    """A streaming query over what the log holds, with its own count of rows."""
    reader = scene.spark.get().readStream.format("pgsluice").option("log", str(log))
    frame = reader.option("table", f"public.{data.table}").load().select(*COLUMNS)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(log.parent / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    read = sum(progress["numInputRows"] for progress in query.recentProgress)
    if read != data.changes:
        raise WrongResultError(f"the streaming query read {read} rows of {data.changes}")


def _loop_checksum(scene: Scene, log: Path, end: Lsn) -> Checksum:
    rows = total = 0
    for parts, tables in slices(log, end):
        (version,) = tables.values()
        frame = typed_part_frame(scene.spark.get(), parts, version, SpecialValues(), COLUMNS)
        found = spark_checksum(frame)
        rows, total = rows + found.rows, total + found.total
    return Checksum(rows, total)
