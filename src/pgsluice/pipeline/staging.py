"""
Bringing the rows of a large batch to the driver: tasks write Arrow files, the driver reads them in order.

A task may run twice (a worker was lost, or Spark speculates), and then both attempts leave a file. Each
attempt has a file of its own, and only the files that successful tasks return are read.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.source.tasks import envelope_frame, for_each_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Modification
    from pgsluice.source.tasks import Part

_STAGED: Final = "part int, path string"


def stage(
    spark: SparkSession,
    parts: Sequence[Part],
    modification: Modification,
    directory: Path,
) -> list[Path]:
    """Read and modify in tasks; gives the files of the successful ones, in the order of the log."""
    target = str(directory)
    if modification:
        frame = modification.apply(envelope_frame(spark, parts))
        written = frame.mapInArrow(_writer(target, frame.columns), _STAGED)
    else:
        # Nothing changes a row on its way: one hop reads and writes.
        written = for_each_part(
            spark, parts, lambda number, rows: iter((_write(number, rows, target, ()),)), _STAGED
        )
    found = sorted((row.part, row.path) for row in written.collect())
    return [Path(path) for _, path in found]


def staged_tables(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of the files, a table per range or less, mapped and not copied."""
    for path in paths:
        with pa.memory_map(str(path)) as source:
            file = pa.ipc.open_file(source)
            for batch in map(file.get_batch, range(file.num_record_batches)):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        path.unlink()


def _writer(directory: str, columns: Sequence[str]) -> Any:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield _write(context.partitionId(), batches, directory, columns)

    return write


def _write(
    number: int, batches: Iterator[pa.RecordBatch], directory: str, columns: Sequence[str]
) -> pa.RecordBatch:
    from pgsluice.changelog.envelope import in_envelope, schema_of
    from pgsluice.observability.failpoints import failpoint

    path = f"{directory}/{number:08d}-{uuid.uuid4().hex}.arrow"
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema_of(columns)) as writer:
        for batch in batches:
            writer.write_batch(in_envelope(batch))
    failpoint("task.after_write")
    return pa.RecordBatch.from_pydict(
        {"part": pa.array([number], pa.int32()), "path": pa.array([path], pa.string())}
    )
