"""
The parts of a pipeline, put together as ``Pipeline.run`` does it, with a clock between them.

The listener is a real process; a sink's loop runs here, over a Spark session that the scene keeps warm.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psutil

from bench.capture.checksum import Checksum, envelope_checksum
from pgsluice.changelog.reader import LogReader
from pgsluice.errors import SluiceError
from pgsluice.modifiers.chain import Chain
from pgsluice.pipeline.intake import BatchOptions
from pgsluice.pipeline.loop import SinkLoop
from pgsluice.schema.store import SchemaStore
from pgsluice.sinks.base import SinkContext
from pgsluice.source.connect import connect
from pgsluice.source.listener import ListenerOptions
from pgsluice.source.process import ListenerProcess
from pgsluice.source.relations import Relations
from pgsluice.source.report import read_report
from pgsluice.source.tasks import decode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from bench.capture.scene import DataSet, Scene
    from pgsluice.changelog.position import Lsn
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Sink
    from pgsluice.source.relations import DecodableRange

_PATIENCE: Final = 300.0  # seconds; longer is a failure, not a figure
_LOOK: Final = 0.001
_SLICE_BYTES: Final = BatchOptions().max_bytes


@dataclass(frozen=True, slots=True)
class Listening:
    """A listener that has begun to stream."""

    pid: int
    since: float  # time.monotonic() when it asked the server for the stream; its start-up is over


@contextmanager
def listening(data: DataSet, slot: str, log: Path, *, url: str | None = None) -> Iterator[Listening]:
    """A listener process from the start of its stream on."""
    options = ListenerOptions(
        url or data.url, slot, (data.publication,), log, max_bytes=64 << 30,
        retention=3600.0,  # what was read is compared afterwards
    )  # fmt: skip
    listener = ListenerProcess(options, log_level="error")
    listener.start()
    try:
        since = _wait_for_stream(listener, log)
        assert listener.pid is not None
        yield Listening(listener.pid, since)
    finally:
        listener.stop()


def wait_for_log(log: Path, end: Lsn) -> float:
    """Wait until the log holds everything up to ``end``, durably; gives the moment."""
    reader = LogReader(log)
    deadline = time.monotonic() + _PATIENCE
    while reader.end < end:
        reader.wait(1.0)
        if time.monotonic() > deadline:
            raise SluiceError(f"the log did not reach {end}")
    return time.monotonic()


def carry(
    scene: Scene,
    sink: Sink,
    log: Path,
    end: Lsn,
    *,
    name: str = "target",
    chain: Chain | None = None,
    options: BatchOptions | None = None,
) -> float:
    """Run a sink's loop until it has applied everything up to ``end``; gives the moment."""
    loop = make_loop(scene, sink, log, name=name, chain=chain, options=options)
    loop.open()
    loop.stop_at(end)
    loop.start()
    loop.join(_PATIENCE)
    moment = time.monotonic()
    if loop.error is not None:
        raise loop.error
    if loop.is_alive():
        loop.stop()
        raise SluiceError(f"the sink did not reach {end}")
    return moment


def make_loop(
    scene: Scene,
    sink: Sink,
    log: Path,
    *,
    name: str = "target",
    chain: Chain | None = None,
    options: BatchOptions | None = None,
) -> SinkLoop:
    """The loop of one sink, not yet opened."""
    return SinkLoop(
        name,
        sink,
        log=log,
        context=SinkContext("bench", log.parent),
        chain=chain or Chain(),
        spark=scene.spark,
        catalog=lambda: connect(scene.url),
        wanted=None,
        options=options or BatchOptions(),
    )


def slices(
    log: Path, end: Lsn, max_bytes: int = _SLICE_BYTES
) -> Iterator[tuple[list[DecodableRange], dict[int, TableVersion]]]:
    """What a log holds up to ``end``, in the portions that a loop takes."""
    reader = LogReader(log)
    store = SchemaStore(log / "schema.db")
    relations = Relations(store)
    position = reader.first_lsn
    while position < end and (slice_ := reader.next(position, max_bytes)) is not None:
        parts, tables = relations.resolve(slice_.ranges)
        yield parts, dict(tables)
        position = slice_.end
    store.close()


def log_checksum(log: Path, end: Lsn) -> Checksum:
    """The checksum of the rows that a log holds."""

    def batches() -> Iterator[pa.RecordBatch]:
        for parts, _ in slices(log, end):
            yield from map(decode, parts)

    return envelope_checksum(batches())


def spark_process() -> int:
    """The process id of the JVM, whose descendants are the Python workers."""
    children = psutil.Process(os.getpid()).children()
    return int(next(child.pid for child in children if child.name() == "java"))


def _wait_for_stream(listener: ListenerProcess, log: Path) -> float:
    """
    Wait until the listener streams; gives the moment just before it asked the server to.

    That is when it wrote the log's description; its report comes a little later, when the server has
    already begun to decode.
    """
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        report = read_report(log)
        if report is not None and report.state == "streaming":
            return time.monotonic() - (time.time() - (log / "meta.json").stat().st_mtime)
        listener.check()
        time.sleep(_LOOK)
    raise SluiceError("the listener did not begin to stream")
