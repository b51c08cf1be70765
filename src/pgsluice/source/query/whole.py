"""A log read as a batch: everything from the starting position to its present end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.errors import TableChangedError
from pgsluice.schema.store import SchemaStore
from pgsluice.source.query.bounded import NO_END, BoundedReader
from pgsluice.source.query.opening import relations_of, start_of, typed_table
from pgsluice.source.query.planning import in_ranges, tasks

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pgsluice.source.query.options import ReadOptions
    from pgsluice.source.query.partition import LogPartition


def whole_log(options: ReadOptions, columns: StructType) -> list[LogPartition]:
    """The tasks; nothing holds the log for them, so a listener may throw segments away meanwhile."""
    reader = BoundedReader(options.log)
    store = SchemaStore(options.log / "schema.db")
    try:
        relations = relations_of(options, None, store)
        slice_ = in_ranges(reader, start_of(options, reader), NO_END, options)
        if slice_ is None:
            return []
        table = typed_table(options, reader, relations)
        if table is not None and (end := table.end_of_layout(slice_, columns)) < slice_.end:
            raise TableChangedError(
                f"the log has rows of {'.'.join(options.table or ())} with other columns after {end}",
                remedy="Stream it, which stops at the change, or leave the option table out",
                lsn=str(end),
            )
        return tasks(slice_, relations, columns, options)
    finally:
        store.close()
