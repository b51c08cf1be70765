"""
Figure 4: one transaction of twice the rows, through ``pgsluice run`` into DuckDB, and the memory it takes.

Everything is a process of its own here, as users have it: the run's driver, its Spark, its listener. The
transaction waits, open, while their idle sizes are taken; then it commits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import duckdb
import psutil

from bench.capture.checksum import duckdb_checksum, source_checksum
from bench.capture.scene import ROOT
from bench.harness import MIB, Bar, Sample, WrongResultError, figure
from bench.watch import Watch, memory
from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn
from pgsluice.source.process import listening_process
from pgsluice.source.report import read_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from bench.capture.scene import Scene
    from bench.harness import Figure

_LISTENER: Final = Bar(96, "<=", of="value")
_PATIENCE: Final = 300.0
_SETTLE: Final = 3.0  # seconds of idling before the idle sizes are taken


def measure(scene: Scene) -> Iterator[Figure]:
    """How much the listener grows, and how large the others become."""
    repetitions = range(scene.options.repetitions)
    runs = [_one_transaction(scene, f"large{number}") for number in repetitions]
    listener = [Sample(grown["listener"]) for _, grown in runs]
    yield figure("one transaction: listener over idle", "MiB", listener, bar=_LISTENER)
    driver = [Sample(grown["driver"]) for _, grown in runs]
    yield figure("one transaction: driver over idle", "MiB", driver)
    for role, name in {"driver": "driver", "spark": "JVM and workers"}.items():
        sizes = [Sample(sample.usage.peak_bytes[role] / MIB) for sample, _ in runs]
        yield figure(f"one transaction: {name}, peak", "MiB", sizes)
    yield figure("one transaction -> DuckDB, Spark cold", "rows/s", [sample for sample, _ in runs])


def _one_transaction(scene: Scene, table: str) -> tuple[Sample, dict[str, float]]:
    rows = scene.options.rows * 2
    with scene.connect() as connection, scene.scratch() as directory:
        scene.make_table(connection, table)
        slot = scene.make_slot(connection, table)
        log = directory / "state" / "log"
        with _pipeline_run(scene, table, directory) as run:
            listener = _listener(run, log)
            connection.autocommit = False
            scene.insert(connection, table, 1, rows)
            time.sleep(_SETTLE)
            idle = {"listener": _size(listener), "driver": _size(run.pid)}
            before = _wal_end(connection)
            with _watch(run, listener) as watch:
                connection.commit()
                committed = time.monotonic()
                _wait(lambda: _passed(log, before), f"the sink got nothing behind {before}")
                seconds = time.monotonic() - committed
            connection.autocommit = True
        _compare(scene, table, directory)
        scene.drop_slot(slot)
    usage = watch.usage()
    return Sample(rows / seconds, usage), {
        role: (usage.peak_bytes[role] - size) / MIB for role, size in idle.items()
    }


@contextmanager
def _pipeline_run(scene: Scene, table: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable, "-m", "pgsluice.cli.main", "--log-level", "error", "run", "--init",
        "--name", table, "--slot", table, "--publication", table, "--state-dir", str(directory / "state"),
        "--target", "duckdb", "--target-url", str(directory / "target.duckdb"),
    ]  # fmt: skip
    environment = {**os.environ, "PGSLUICE_SOURCE__POSTGRES__URL": scene.url}
    run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield run
        run.send_signal(signal.SIGTERM)
        if run.wait(60) != 0:
            raise WrongResultError(f"pgsluice run ended with exit code {run.returncode}")
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()


def _listener(run: subprocess.Popen[bytes], log: Path) -> int:
    """The process id of the listener, once it streams."""

    def streaming() -> bool:
        if run.poll() is not None:
            raise WrongResultError(f"pgsluice run ended with exit code {run.returncode}")
        report = read_report(log) if log.exists() else None
        return report is not None and report.state == "streaming"

    _wait(streaming, "pgsluice run did not begin to stream")
    listener = listening_process(log)
    assert listener is not None
    return listener


def _watch(run: subprocess.Popen[bytes], listener: int) -> Watch:
    return Watch({"listener": listener, "driver": run.pid, "spark": lambda: _java(run)}, alone=("driver",))


def _java(run: subprocess.Popen[bytes]) -> int | None:
    """The JVM, which a run starts when it first has much to do; its descendants are the workers."""
    children = psutil.Process(run.pid).children()
    return next((child.pid for child in children if child.name() == "java"), None)


def _size(pid: int) -> int:
    return memory(psutil.Process(pid))


def _wal_end(connection: psycopg.Connection[Any]) -> Lsn:
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def _passed(log: Path, before: Lsn) -> bool:
    """Whether the sink holds something that was committed after ``before``."""
    return any(consumer.lsn > before for consumer in Consumers(log).all())


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise WrongResultError(complaint)
        time.sleep(0.02)


def _compare(scene: Scene, table: str, directory: Path) -> None:
    with scene.connect() as connection:
        expected = source_checksum(connection, table)
    with duckdb.connect(str(directory / "target.duckdb"), read_only=True) as target:
        expected.require(duckdb_checksum(target, table), f"{table} in DuckDB")
