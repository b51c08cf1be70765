"""A log read as a batch: everything from the starting position to its present end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pgsluice.errors import TableChangedError
from pgsluice.schema.store import SchemaStore
from pgsluice.source.query.bounded import BoundedReader
from pgsluice.source.query.opening import relations_of, start_of, typed_table
from pgsluice.source.query.partition import LogPartition, gather
from pgsluice.source.query.table import fitting_versions, names_table

if TYPE_CHECKING:
    import pyarrow as pa

    from pgsluice.source.query.options import ReadOptions


def whole_log(options: ReadOptions, columns: pa.Schema) -> list[LogPartition]:
    """The tasks; nothing holds the log for them, so a listener may throw segments away meanwhile."""
    reader = BoundedReader(options.log)
    store = SchemaStore(options.log / "schema.db")
    try:
        relations = relations_of(options, None, store)
        slice_ = reader.between(start_of(options, reader))
        if slice_ is None:
            return []
        parts, versions = relations.resolve(slice_.ranges)
        count = max(2 * (os.cpu_count() or 1), len(parts) // 64)
        table = typed_table(options, reader, relations)
        if table is None:
            return gather(parts, count, {}, options.special)
        if (end := table.end_of_layout(slice_, columns)) < slice_.end:
            raise TableChangedError(
                f"the log has rows of {'.'.join(options.table or ())} with other columns after {end}",
                remedy="Stream it, which stops at the change, or leave the option table out",
                lsn=str(end),
            )
        fitting = fitting_versions(versions, columns, options.special)
        return gather([part for part in parts if names_table(part)], count, fitting, options.special)
    finally:
        store.close()
