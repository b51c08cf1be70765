"""
The first copy of a table with its key and one index into an empty database.

Against ``pg_dump -Fc | pg_restore``, from the start of the programs to their end; and against one binary
COPY piped into another, into a table that has the key and the index already. Ours is what ``pgsluice
snapshot`` does after Spark has started: take the point, make the table by ``pg_dump --schema-only``, copy the
rows by ranges, build key and index. Rows are compared by a checksum after each.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

from bench.capture.route import spark_process
from bench.harness import Bar, Sample, WrongResultError, figure
from bench.postgres.clusters import per_million
from bench.postgres.commands import copy_pipe, dump_and_restore, run_line
from bench.postgres.ours import sink
from bench.watch import Watch
from pgsluice.modifiers.chain import Chain
from pgsluice.pipeline.copy import CopySource, TableCopy
from pgsluice.pipeline.loop_facts import LoopFacts
from pgsluice.schema.renames import Renames
from pgsluice.schema.store import SchemaStore
from pgsluice.sinks.base import SinkContext
from pgsluice.source.postgres import PostgresSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure
    from bench.postgres.clusters import Clusters, FilledTable

_DUMP: Final = Bar(1.2)
_PIPE: Final = Bar(1.0)
_WARM_RUNS: Final = 2


def measure(pair: Clusters) -> Iterator[Figure]:
    """The three of them in turn."""
    for _ in pair.warm_runs(_WARM_RUNS):
        _by_tasks(pair, pair.warm_up)
    dumped, piped, ours = [], [], []
    for _ in range(pair.options.repetitions):
        dumped.append(_by_dump(pair, pair.large))
        piped.append(_by_pipe(pair, pair.large))
        ours.append(_by_tasks(pair, pair.large))
    yield figure("first copy: pg_dump | pg_restore", "rows/s", dumped)
    yield figure("first copy: binary COPY pipe", "rows/s", piped)
    yield figure("first copy, against pg_dump", "rows/s", ours, reference=dumped, bar=_DUMP)
    yield figure("first copy, against COPY", "rows/s", ours, reference=piped, bar=_PIPE)


def _by_dump(pair: Clusters, table: FilledTable) -> Sample:
    with pair.database() as database:
        sample = run_line(pair, dump_and_restore(pair, table.name, database), table.rows)
        pair.require_equal(database, table.name, table.checksum, "pg_restore")
        _require_indexes(pair, database, table)
    return sample


def _by_pipe(pair: Clusters, table: FilledTable) -> Sample:
    with pair.database() as database:
        with pair.connect_target(database) as conn:
            pair.source.make_table(conn, table.name)
            pair.add_index(conn, table.name)
        sample = run_line(pair, copy_pipe(pair, table.name, database), table.rows)
        pair.require_equal(database, table.name, table.checksum, "COPY")
    return sample


def _by_tasks(pair: Clusters, table: FilledTable) -> Sample:
    pair.source.spark.get()
    roles = {"driver": os.getpid(), "spark": spark_process(), **pair.servers()}
    with pair.database() as database:
        with Watch(roles, alone=("driver",)) as watch:
            started = time.monotonic()
            _copy(pair, table, database)
            seconds = time.monotonic() - started
        pair.require_equal(database, table.name, table.checksum, "our tasks")
        _require_indexes(pair, database, table)
    return Sample(table.rows / seconds, per_million(watch.usage(), table.rows))


def _copy(pair: Clusters, table: FilledTable, database: str) -> None:
    source = PostgresSource(pair.source.url, tables=[f"public.{table.name}"])
    target = sink(pair, database)
    with pair.source.scratch() as directory:
        store = SchemaStore(directory / "schema.db")
        copy = TableCopy(
            "target",
            target,
            CopySource(source.url, source.chosen_tables, lambda _schema, _table: True, lambda _conn: []),
            store=store,
            chain=Chain(),
            renames=Renames(),
            spark=pair.source.spark.child,
            scratch=directory,
            stopping=threading.Event(),
            facts=LoopFacts(),
        )
        try:
            copy.run(target.open(SinkContext("bench", directory)))
        finally:
            target.close()
            store.close()


def _require_indexes(pair: Clusters, database: str, table: FilledTable) -> None:
    with pair.connect_target(database) as conn:
        row = conn.execute("SELECT count(*) FROM pg_indexes WHERE tablename = %s", (table.name,)).fetchone()
    if row != (2,):
        raise WrongResultError(f"{table.name} has not its key and index in the target: {row}")
