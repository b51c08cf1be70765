"""
The Spark data source ``pgsluice``: what Spark calls, and nothing more.

Spark makes the source in one Python process, its stream reader in another that lives as long as the
query, and reads partitions in its workers; options, columns and partitions travel between them as plain
data. What a query does with its log is in :mod:`pgsluice.source.query`, how a table is read from its database
in :mod:`pgsluice.source.scan`; both are imported where they are needed: each of these processes waits for its
own imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from pgsluice.errors import ConfigError, SluiceError, SourceError
from pgsluice.source.query.options import parse_options

try:
    from pyspark.sql.streaming.datasource import (
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    ADMISSION_CONTROL = True
except ImportError:  # PySpark 4.1: a trigger takes all that there is
    ADMISSION_CONTROL = False
    ReadLimit = ReadMaxBytes = ReadMaxRows = SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgsluice.source.query.log import QueryLog
    from pgsluice.source.query.options import ReadOptions


class PgsluiceDataSource(DataSource):
    """Changes of a PostgreSQL database from its change log, or the rows of one of its tables."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = parse_options(options)
        self._no_stream: SluiceError | None = None  # why the table can be read as a batch only

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "pgsluice"

    def schema(self) -> StructType:
        """
        The envelope, or the columns of one table.

        Spark asks before it says whether it will read once or stream. So a table has the columns of its
        stream in both, unless an option says that it is read as a batch.
        """
        from pgsluice.source.query.columns import columns_of, table_columns

        if self._options.table_alone:
            return table_columns(self._options)
        try:
            return columns_of(self._options)
        except (ConfigError, SourceError) as error:
            if self._options.url is None or self._options.table is None:
                raise
            self._no_stream = error
            return table_columns(self._options)

    def streamReader(self, schema: StructType) -> ChangeStream:  # noqa: N802 (Spark's name)
        """For ``readStream``."""
        if self._options.table_alone:
            raise ConfigError(
                "the options columns, where and snapshot are for tables that are read as a batch",
                remedy="Leave them out and select, or use spark.read",
            )
        if self._no_stream is not None:
            raise self._no_stream
        return ChangeStream(self._options, _own(self._options, schema))

    def reader(self, schema: StructType) -> LoggedChanges | TableRows:
        """For ``read``: the table as the database has it, or what the log holds now."""
        if self._options.url is None and not self._options.table_alone:
            return LoggedChanges(self._options, _own(self._options, schema))
        return TableRows(self._options, schema)


class ChangeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader: offsets and partitions of one query."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._opened: QueryLog | None = None  # only where offsets are asked for, never in tasks
        self._returned: dict[str, str] | None = None  # the last offset, for PySpark 4.1

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """Where a new query starts."""
        return self._offset(self._log.initial())

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, str]:
        """The end of the next micro-batch: a transaction's end."""
        position = self._lsn(start) if start is not None else self._last_known()
        end = self._log.next_end(position, **_limits(limit))
        self._returned = self._offset(end)
        return self._returned

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """As many bytes of log as the option says."""
        return ReadMaxBytes(self._options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what there is now, then end."""
        self._log.stop_at_present()

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802
        """How far the log reaches, for the query's progress."""
        return self._offset(self._log.end()) if self._opened is not None else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch."""
        return self._log.partitions(self._lsn(start), self._lsn(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return _rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Let the log go up to there: it is in the query's checkpoint."""
        self._log.release(self._lsn(end))

    def stop(self) -> None:
        """Let the next run of the query in; the listener stays."""
        if self._opened is not None:
            self._opened.close()

    @property
    def _log(self) -> QueryLog:
        if self._opened is None:
            from pgsluice.observability.logs import configure
            from pgsluice.source.query.log import QueryLog

            configure(level="warn")  # this process is ours alone, and its standard output nobody's
            self._opened = QueryLog(self._options, self._schema)
        return self._opened

    def _last_known(self) -> Any:
        return self._lsn(self._returned) if self._returned else self._log.resume_point()

    def _offset(self, lsn: Any) -> dict[str, str]:
        from pgsluice.source.query.offset import Offset

        return Offset(lsn, self._log.system).as_json()

    def _lsn(self, offset: dict[str, Any]) -> Any:
        from pgsluice.source.query.offset import Offset

        return Offset.read(offset, self._log.system).lsn


class LoggedChanges(DataSourceReader):
    """The batch reader: the log from the starting position to its end."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        from pgsluice.source.query.whole import whole_log

        return list(whole_log(self._options, self._schema))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return _rows(partition)


class TableRows(DataSourceReader):
    """
    The batch reader of a table in its database.

    It takes no filters. Spark 4.1 and 4.2 plan the tasks of a frame once and keep them, also those that were
    planned for a filter: whoever uses the frame again, with another filter or none, would get rows of the
    first one alone. What the server should leave out is said by the option ``where``.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        from pgsluice.source.scan.plan import plan

        return list(plan(self._options, self._schema))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        from pgsluice.source.scan.read import TablePartition, rows

        return rows(partition) if isinstance(partition, TablePartition) else iter(())


def _rows(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    from pgsluice.source.query.partition import LogPartition, rows

    return rows(partition) if isinstance(partition, LogPartition) else iter(())


def _limits(limit: ReadLimit | None) -> dict[str, int]:
    if ADMISSION_CONTROL and isinstance(limit, ReadMaxBytes):
        return {"max_bytes": limit.max_bytes}
    if ADMISSION_CONTROL and isinstance(limit, ReadMaxRows):
        return {"max_changes": limit.max_rows}
    return {}


def _own(options: ReadOptions, schema: StructType) -> StructType:
    """The schema that Spark has for the query; one that the user made up would be filled wrongly."""
    from pgsluice.source.query.columns import envelope_columns

    if options.table is None and schema != envelope_columns():
        raise ConfigError(
            "the columns of pgsluice are not to be chosen", remedy="Leave .schema(...) out, and select"
        )
    return schema
