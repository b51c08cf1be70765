"""
The way of a batch into a DuckDB file: one DuckDB transaction with its rows and its progress.

Chunks are gathered per table up to a bound, folded, and merged; a source transaction larger than that is
several folds in the one DuckDB transaction. The tables have no constraints between them, so only the order
inside each table matters.

Unit of parallelism: one writer, the driver; DuckDB itself uses several threads. Guarantee: exactly once.
On replay: progress is in the same transaction, so what was applied does not come again; a batch whose
reply was lost is recognised by its token.
"""

# ruff: noqa: S608 - identifiers are quoted; DuckDB has no builder for SQL

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from pgsluice.errors import TargetError, TargetUnavailableError
from pgsluice.observability.failpoints import failpoint
from pgsluice.sinks.duckdb.change_schema import SchemaChanges
from pgsluice.sinks.duckdb.config import DuckDBConfig
from pgsluice.sinks.duckdb.failures import against_rule, translated
from pgsluice.sinks.duckdb.held import DuckDBComparison
from pgsluice.sinks.duckdb.merge import Merge
from pgsluice.sinks.duckdb.misfits import misfit
from pgsluice.sinks.duckdb.progress import ProgressRow
from pgsluice.sinks.duckdb.sql import quoted
from pgsluice.sinks.duckdb.target import Tables
from pgsluice.sinks.fold import fold, gathered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Batch, Comparison, DataStep, SinkContext, Swap
    from pgsluice.sinks.base import SchemaChanges as WhatToDo


class DuckDBSink:
    """
    Writes tables to a DuckDB file. See the module's text for what it promises.

    Args:
        target: the file, or all options.
    """

    takes_chunks = True
    keeps_texts = True

    def __init__(self, target: DuckDBConfig | str | Path) -> None:
        self._config = target if isinstance(target, DuckDBConfig) else DuckDBConfig(path=Path(target))
        self._connection: Any = None
        self._tables: Tables
        self._merge: Merge
        self._progress: ProgressRow
        self._taken: list[pa.Table] = []  # by a trial
        self._held: Collection[int] = ()  # tables that must be there, by the last batch

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
        self._held = batch.held
        with self._transaction():
            if self._progress.holds(batch, self._connection):
                return
            changes = SchemaChanges(self._connection, self._tables)
            for step in batch.steps:
                if step.entry is not None:
                    changes.make(step.entry)
                else:
                    self._apply_step(step)
            for swap in batch.swaps:
                self._swap(swap)
            self._progress.move(batch, self._connection)
            failpoint("sink.before_commit")
        failpoint("sink.after_commit")

    @property
    def schema_changes(self) -> WhatToDo:
        """Whether the target's tables follow the source's."""
        return self._config.schema_changes

    def twin(self) -> DuckDBSink:
        """Another one for the same file: DuckDB shares it inside of a process."""
        return DuckDBSink(self._config.model_copy(update={"schema_changes": "ignore"}))

    def forget(self, pipeline: str) -> None:
        """Remove the progress of another pipeline."""
        with self._transaction():
            ProgressRow(pipeline).remove(self._connection)

    def holds(self, table: TableVersion) -> bool:
        """Whether the target has a table of that name, as it was made beside another one for this version."""
        with self._transaction():
            return self._tables.holds(table)

    def tied_to(self, tables: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """None: nothing refers to anything."""
        return set()

    def make_beside(self, table: TableVersion, beside: TableVersion) -> None:
        """Make an empty table like another one."""
        with self._transaction():
            new = self._tables.name((beside.schema, beside.name))
            self._connection.execute(f"DROP TABLE IF EXISTS {new}")
            self._tables.forget()
            if self._config.schema_changes == "apply":  # the table's own columns may still be those of before
                self._tables.ready(beside)
            else:
                old = self._tables.ready(table)
                self._connection.execute(f"CREATE TABLE {new} AS FROM {old.sql_name} LIMIT 0")
            self._connection.execute(f"COMMENT ON TABLE {new} IS '{beside.shape}'")

    def drop_beside(self, beside: TableVersion) -> None:
        """Remove such a table."""
        with self._transaction():
            name = self._tables.name((beside.schema, beside.name))
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
            self._tables.forget()

    def _swap(self, swap: Swap) -> None:
        old, new = self._tables.ready(swap.table), self._tables.ready(swap.beside)
        names = ", ".join(quoted(column.name) for column in old.columns)
        self._connection.execute(f"DELETE FROM {old.sql_name}")
        self._connection.execute(f"INSERT INTO {old.sql_name} ({names}) SELECT {names} FROM {new.sql_name}")
        self._connection.execute(f"DROP TABLE {new.sql_name}")
        ProgressRow(swap.pipeline).remove(self._connection)

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(duckdb.Error):
                connection.close()

    compares_as_source = False

    @contextmanager
    def comparing(self) -> Iterator[Comparison]:
        """Look at the file; while another process has it open, DuckDB refuses that."""
        path = self._config.path
        if not path.exists():
            raise TargetUnavailableError(
                f"there is no DuckDB file {path}", remedy="Let a run make it first", path=str(path)
            )
        try:
            with self._looking() as connection:
                connection.execute("SET TimeZone = 'UTC'")
                connection.execute("SET python_enable_replacements = false")
                tables = Tables(connection, lists=self._config.arrays == "list", follows=False)
                yield DuckDBComparison(connection, tables)
        except duckdb.Error as error:
            raise translated(error, path) from error

    def _looking(self) -> Any:
        try:
            return duckdb.connect(str(self._config.path), read_only=True)
        except duckdb.ConnectionException:  # a run of this process has it open, for writing
            return duckdb.connect(str(self._config.path))

    def _connect(self) -> None:
        connection = duckdb.connect(str(self._config.path))
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")  # a name in SQL is never a variable
        if self._config.threads is not None:
            connection.execute(f"SET threads = {self._config.threads}")
        if self._config.memory_limit is not None:
            connection.execute(f"SET memory_limit = '{self._config.memory_limit}'")
        follows = self._config.schema_changes == "apply"
        self._tables = Tables(connection, lists=self._config.arrays == "list", follows=follows)
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
        if step.ranges:  # copied tables, some of which may be empty
            for version in step.tables.values():
                self._tables.ready(version)
        self._write_all(step.chunks(), step.tables)

    def _write_all(self, chunks: Iterable[pa.Table], tables: Mapping[int, TableVersion]) -> None:
        for runs in gathered(chunks, tables, self._config.fold_bytes):
            for version, rows in runs:
                self._write(version, rows)

    @contextmanager
    def trial(self) -> Iterator[DuckDBSink]:
        """Try rows in a transaction that is rolled back; see :meth:`take`."""
        self._taken = []
        try:
            with self._transaction():
                yield self
                raise _TrialOver  # noqa: TRY301 - it rolls the transaction back
        except _TrialOver:
            self._taken = []

    def take(self, rows: pa.Table, tables: Mapping[int, TableVersion]) -> TargetError | None:
        """Put rows on top of those that the trial has taken, or say why the target refuses them."""
        try:
            self._write_all([rows], tables)
        except (duckdb.Error, TargetError) as error:
            refused = error if isinstance(error, TargetError) else translated(error, self._config.path)
            if not refused.caused_by_row:
                raise
            # DuckDB knows no savepoints: what was taken is written once more.
            self._roll_back()
            self._connection.execute("BEGIN")
            for before in self._taken:
                self._write_all([before], tables)
            return refused
        self._taken.append(rows)
        return None

    def _write(self, version: TableVersion, rows: pa.Table) -> None:
        table = self._tables.ready(version, held=version.relid in self._held)
        folded = fold(rows, version)
        try:
            self._merge.apply(table, folded)
        except duckdb.ConversionException as error:
            raise misfit(self._connection, table, folded) from error
        except duckdb.ConstraintException as error:
            raise against_rule(error, version) from error


class _TrialOver(Exception):  # noqa: N818 - not an error: the way out of a transaction that is rolled back
    """A trial has come to its end."""
