"""
Our way: a listener process, its log, and the loop of a PostgreSQL sink, as ``Pipeline.run`` has them.

Spark has been started and is warm: a run is long-lived, and its start (some seconds, once) is not part of any
figure. The listener process is started beforehand too; the clock of a catch-up starts when it asks the server
for the stream.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.capture.route import listening, make_loop, spark_process
from bench.watch import Watch
from pgsluice.sinks.postgres.sink import PostgresSink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.capture.route import Listening
    from bench.capture.scene import DataSet
    from bench.postgres.clusters import Clusters
    from pgsluice.modifiers.chain import Chain


@contextmanager
def pipeline(
    pair: Clusters, data: DataSet, slot: str, database: str, directory: Path, chain: Chain | None = None
) -> Iterator[tuple[Listening, Watch]]:
    """A listener and a loop at work; its own error is a better reason than rows that don't come."""
    log = directory / "log"
    with listening(data, slot, log) as started:
        roles = {"listener": started.pid, "driver": os.getpid(), "spark": spark_process(), **pair.servers()}
        with Watch(roles, alone=("driver",)) as watch:
            loop = make_loop(pair.source, sink(pair, database), log, chain=chain)
            loop.open()
            loop.start()
            try:
                yield started, watch
            finally:
                loop.stop()
                loop.join()
                if loop.error is not None:
                    raise loop.error


def sink(pair: Clusters, database: str) -> PostgresSink:
    """The sink of a database of the target."""
    return PostgresSink(pair.target_url(database))
