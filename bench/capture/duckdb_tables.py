"""
Figure 3: slot -> DuckDB, end to end: inserts into an empty file, then updates of a part of the rows.

The whole way of a pipeline: listener process, log, loop, Spark tasks, merge into the file, progress in the
same transaction. Spark is warm when the clock starts, and the clock starts when the listener asks for the
stream. Each is compared with the bare loop over the same changes.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import duckdb

from bench.capture import bare
from bench.capture.checksum import duckdb_checksum
from bench.capture.route import carry, listening, spark_process
from bench.harness import Bar, Sample, figure
from bench.watch import Watch
from pgsluice.sinks.duckdb import KIND, DuckDBConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.capture.scene import DataSet, Scene
    from bench.harness import Figure
    from pgsluice.changelog.position import Lsn

_INSERTS: Final = Bar(0.5)
_UPDATES: Final = Bar(0.25)


def measure(scene: Scene) -> Iterator[Figure]:
    """Inserts and updates, each in turn with the bare loop."""
    _warm(scene)
    repetitions = range(scene.options.repetitions)
    with ExitStack() as kept:
        places = [kept.enter_context(scene.scratch()) for _ in repetitions]
        data = scene.write("orders", scene.options.rows)
        slots = [kept.enter_context(scene.slot_of(data)) for _ in repetitions]
        yield from _compare(scene, "inserts", data, slots, places, _INSERTS)
        # The same slots, logs and files go on with the updates, as a pipeline would after a restart.
        updates = scene.update("orders", scene.options.rows * 3 // 10)
        yield from _compare(scene, "updates", updates, slots, places, _UPDATES)


def _compare(
    scene: Scene, what: str, data: DataSet, slots: list[str], places: list[Path], bar: Bar
) -> Iterator[Figure]:
    end = bare.end_of(scene, data)
    bulk, ours = [], []
    for slot, directory in zip(slots, places, strict=True):
        bulk.append(bare.bulk(scene, data))
        ours.append(_slot_to_duckdb(scene, data, slot, directory, end))
    yield figure(f"slot -> DuckDB, {what}", "rows/s", ours, reference=bulk, bar=bar)


def _slot_to_duckdb(scene: Scene, data: DataSet, slot: str, directory: Path, end: Lsn) -> Sample:
    log, file = directory / "log", directory / "target.duckdb"
    with listening(data, slot, log) as started:
        roles = {"listener": started.pid, "driver": os.getpid(), "spark": spark_process()}
        with Watch(roles, alone=("driver",)) as watch:
            moment = carry(scene, KIND.build(DuckDBConfig(path=file)), log, end)
    with duckdb.connect(str(file), read_only=True) as connection:
        data.checksum.require(duckdb_checksum(connection, data.table), f"{data.table} in DuckDB")
    return Sample(data.changes / (moment - started.since), watch.usage())


def _warm(scene: Scene) -> None:
    """Spark, its workers, and the compiled passes of the driver."""
    data = scene.warm_up
    end = bare.end_of(scene, data)
    scene.spark.get()
    for _ in range(3):
        with scene.slot_of(data) as slot, scene.scratch() as directory:
            _slot_to_duckdb(scene, data, slot, directory, end)
