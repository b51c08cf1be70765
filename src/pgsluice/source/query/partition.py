"""
The work of one task: ranges of the log as plain data, and the rows that they become.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pgsluice.schema.typed.choices import SpecialValues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from pgsluice.schema.table import TableVersion
    from pgsluice.source.relations import DecodableRange


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """Neighbouring ranges, decoded one after the other, so that a task's memory is that of one range."""

    parts: tuple[DecodableRange, ...]
    versions: Mapping[int, TableVersion] = field(default_factory=dict)  # of a typed table
    special: SpecialValues = field(default_factory=SpecialValues)


def rows(partition: LogPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, a range at a time; runs in a task."""
    from pgsluice.source.tasks import rows_in_task

    for part in partition.parts:
        for batch in rows_in_task(part):
            if partition.versions:
                yield from _typed(batch, partition)
            elif batch.num_rows:
                yield batch


def _typed(batch: pa.RecordBatch, partition: LogPartition) -> Iterator[pa.RecordBatch]:
    """The table's rows with typed columns; a range may name several versions with the same columns."""
    import numpy as np
    import pyarrow as pa

    from pgsluice.schema.typed.arrow_rows import typed_arrow

    numbers = batch.column("relation").fill_null(-1).to_numpy(zero_copy_only=False)
    changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    for start, end in pairwise([0, *changes.tolist(), len(numbers)]):
        if start < end and numbers[start] >= 0:
            run = pa.Table.from_batches([batch.slice(start, end - start)])
            version = partition.versions[int(numbers[start])]
            yield from typed_arrow(run, version, partition.special).to_batches()
