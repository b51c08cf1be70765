"""
The way of a batch into a DuckDB file: one DuckDB transaction with its rows and its progress.

Chunks are gathered per table up to a bound, folded, and merged; a source transaction larger than that is
several folds in the one DuckDB transaction. The tables have no constraints between them, so only the order
inside each table matters.

Unit of parallelism: one writer, the driver; DuckDB itself uses several threads. Guarantee: exactly once.
On replay: progress is in the same transaction, so what was applied does not come again; a batch whose
reply was lost is recognised by its token.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.observability.failpoints import failpoint
from pgsluice.sinks.duckdb.config import DuckDBConfig
from pgsluice.sinks.duckdb.failures import translated
from pgsluice.sinks.duckdb.merge import Merge
from pgsluice.sinks.duckdb.misfits import misfit
from pgsluice.sinks.duckdb.progress import ProgressRow
from pgsluice.sinks.duckdb.target import Tables
from pgsluice.sinks.fold import fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Batch, DataStep, SinkContext


_Gathered = dict[str, list[tuple[int, list[pa.Table]]]]
"""By table: runs of rows of one version, in order."""


class DuckDBSink:
    """
    Writes tables to a DuckDB file. See the module's text for what it promises.

    Args:
        target: the file, or all options.
    """

    takes_chunks = True

    def __init__(self, target: DuckDBConfig | str | Path) -> None:
        self._config = target if isinstance(target, DuckDBConfig) else DuckDBConfig(path=Path(target))
        self._connection: Any = None
        self._tables: Tables
        self._merge: Merge
        self._progress: ProgressRow

    def open(self, context: SinkContext) -> str | None:
        """Open the file, make it if it is not there, and take the pipeline's progress over."""
        self.close()
        self._progress = ProgressRow(context.pipeline)
        try:
            with self._transaction():
                return self._progress.take_over(self._connection)
        except BaseException:
            self.close()
            raise

    def apply(self, batch: Batch) -> None:
        """Write a batch and its progress in one transaction."""
        with self._transaction():
            if self._progress.holds(batch, self._connection):
                return
            for step in batch.steps:
                self._apply_step(step)
            self._progress.move(batch, self._connection)
            failpoint("sink.before_commit")
        failpoint("sink.after_commit")

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(duckdb.Error):
                connection.close()

    def _connect(self) -> None:
        connection = duckdb.connect(str(self._config.path))
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")  # a name in SQL is never a variable
        if self._config.threads is not None:
            connection.execute(f"SET threads = {self._config.threads}")
        if self._config.memory_limit is not None:
            connection.execute(f"SET memory_limit = '{self._config.memory_limit}'")
        self._tables = Tables(connection, lists=self._config.arrays == "list")
        self._merge = Merge(connection, misfits_to_null=self._config.misfits == "nullify")
        self._connection = connection

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; after an error the sink is ready for another try."""
        try:
            if self._connection is None:
                self._connect()
            self._connection.execute("BEGIN")
            yield
            self._connection.execute("COMMIT")
        except duckdb.Error as error:
            self._roll_back()
            if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
                self.close()  # DuckDB takes nothing more on it; the next try opens the file again
            raise translated(error, self._config.path) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection is not None:
            self._tables.forget()
            with suppress(duckdb.Error):  # the statement that failed may have ended the transaction
                self._connection.execute("ROLLBACK")
            with suppress(duckdb.Error):  # DuckDB may have given the file up
                self._merge.forget()

    def _apply_step(self, step: DataStep) -> None:
        gathered: _Gathered = {}
        size = 0
        for chunk in step.chunks():
            for relation, rows in _runs(chunk, step.tables):
                _gather(gathered.setdefault(step.tables[relation].qualified, []), relation, rows)
            size += chunk.nbytes
            if size >= self._config.fold_bytes:
                self._write(gathered, step.tables)
                size = 0
        self._write(gathered, step.tables)

    def _write(self, gathered: _Gathered, tables: Mapping[int, TableVersion]) -> None:
        for relation, parts in chain.from_iterable(gathered.values()):
            table = self._tables.ready(tables[relation])
            folded = fold(pa.concat_tables(parts), table.version)
            try:
                self._merge.apply(table, folded)
            except duckdb.ConversionException as error:
                raise misfit(self._connection, table, folded) from error
        gathered.clear()


def _gather(runs: list[tuple[int, list[pa.Table]]], relation: int, rows: pa.Table) -> None:
    """Add rows to the last run of their table, or begin a new one: a version may come back."""
    if not runs or runs[-1][0] != relation:
        runs.append((relation, []))
    runs[-1][1].append(rows)


def _runs(chunk: pa.Table, tables: Mapping[int, TableVersion]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each table, apart where its version changes; messages belong to none and are left out."""
    relations = chunk["relation"]
    versions: dict[str, list[int]] = {}
    for relation in pc.unique(relations).drop_null().to_pylist():
        versions.setdefault(tables[relation].qualified, []).append(relation)
    for found in versions.values():
        is_alone = len(versions) == 1 and relations.null_count == 0
        rows = chunk if is_alone else chunk.filter(pc.is_in(relations, pa.array(found, relations.type)))
        numbers = rows["relation"].to_numpy()
        cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        for start, end in pairwise([0, *cuts, len(numbers)]):
            yield int(numbers[start]), rows.slice(start, end - start)
