"""Reading a table the way Spark does, without Spark around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pgsluice.source.spark import PgsluiceDataSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from pgsluice.source.scan.read import TablePartition


def plan_table(options: dict[str, str], schema: StructType | None = None) -> list[TablePartition]:
    """The tasks of a read."""
    source = PgsluiceDataSource(options)
    return source.reader(schema or source.schema()).partitions()


def read_tasks(tasks: Sequence[TablePartition], options: dict[str, str]) -> pa.Table:
    """The rows of all tasks, one task after the other."""
    source = PgsluiceDataSource(options)
    reader = source.reader(source.schema())
    batches = [batch for task in tasks for batch in reader.read(task)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def read_table(options: dict[str, str]) -> pa.Table:
    """The whole table."""
    return read_tasks(plan_table(options), options)
