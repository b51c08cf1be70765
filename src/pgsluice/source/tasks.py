"""
Reading parts of the log or of tables, on the driver or inside a Spark task: the same code for both.

Only plain data crosses to the workers; numba and Arrow are loaded where the work is done.
"""

from __future__ import annotations

import gc
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

Item = TypeVar("Item")

_RESULT: Final = "task int, done string"
_MOST_BYTES: Final = 256 << 20  # of text that may come back from the JVM in one piece
_BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_LIMIT: Final = 2**31 - 1  # Spark's own word for it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.source.relations import DecodableRange


def decode(part: DecodableRange) -> pa.RecordBatch:
    """The rows of one range, in the envelope."""
    import numpy as np

    from pgsluice.source.pgoutput.decode import decode_range

    range_ = part.range
    with open(range_.path, "rb") as file:  # noqa: PTH123 - a string, for the workers' sake
        file.seek(range_.start)
        data = np.fromfile(file, np.uint8, count=range_.end - range_.start)
    return decode_range(
        data,
        range_.start,
        range_.end,
        opened=range_.opened,
        tail_end_lsn=range_.tail_end_lsn,
        relations=part.relations,
        base=range_.start,
    )


def without_copied(rows: pa.RecordBatch, copied: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    """The rows but for those of versions that were copied at a later point, when they were there already."""
    import pyarrow.compute as pc

    for version, lsn in copied:
        had = pc.and_(pc.equal(rows["relation"], version), pc.less(rows["commit_lsn"], lsn))
        rows = rows.filter(pc.invert(pc.fill_null(had, False)))  # a message belongs to no table
    return rows


class Part(Protocol):
    """
    Some entries, named by plain data: a range of the log, or pages of a table.

    One that knows how much text they have says so with ``text_bytes``.
    """

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The entries, in the envelope and in order; each batch is bounded in size."""
        ...


def rows_in_task(part: Part) -> Iterator[pa.RecordBatch]:
    """The entries of a part, in a worker of Spark."""
    from pgsluice.observability.failpoints import failpoint

    for rows in part.rows():
        keep_modules()
        failpoint("task.after_decode")
        yield rows


@cache
def keep_modules() -> None:
    """
    Take what this worker has loaded out of the garbage collector's sight, once.

    A worker collects garbage after each of its tasks. Walking through numba took four fifths of its time.
    """
    gc.freeze()


def envelope_frame(spark: SparkSession, parts: Sequence[Part]) -> DataFrame:
    """The rows of all parts as a frame, in their order."""
    from pgsluice.changelog.envelope import SPARK_ENVELOPE

    _size_batches(spark, parts)
    return for_each_part(spark, parts, lambda _, rows: rows, SPARK_ENVELOPE)


def _size_batches(spark: SparkSession, parts: Sequence[Part]) -> None:
    """
    How large the batches are in which rows come back from the JVM to Python, in this session from now on.

    Spark can bound them by bytes. It then asks for their size after each row, and the answer takes as long as
    the batch has rows: 100 microseconds in one of 65,536. So there is no such bound where all rows together
    have room in memory; and where nobody knows their size, batches have few rows.
    """
    sizes: list[int | None] = [getattr(part, "text_bytes", None) for part in parts]
    fits = None not in sizes and sum(filter(None, sizes)) <= _MOST_BYTES
    spark.conf.set(_BATCH_ROWS, 4096 if fits else 1024)  # larger ones leave the processor's caches
    spark.conf.set(_BATCH_BYTES, _NO_LIMIT if fits else 64 << 20)


def typed_part_frame(
    spark: SparkSession,
    parts: Sequence[Part],
    version: TableVersion,
    choices: SpecialValues,
    columns: Sequence[str],
) -> DataFrame:
    """The rows of one table version, typed by the tasks that read them; only these columns travel."""
    from pyspark.sql.types import StructType

    from pgsluice.schema.typed.layout import typed_schema

    def typed(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from pgsluice.schema.typed.arrow_rows import typed_arrow

        for rows in batches:
            whole = typed_arrow(pa.Table.from_batches([rows]), version, choices)
            yield from whole.select(list(columns)).to_batches()

    schema = typed_schema(version, choices)
    return for_each_part(spark, parts, typed, StructType([schema[name] for name in columns]))


def for_each_part(
    spark: SparkSession,
    parts: Sequence[Part],
    work: Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """
    What ``work`` makes of the number and the rows of each part, in their order.

    A task takes neighbouring parts one after the other, so its memory is that of one part. There are as
    many tasks as can run at once: each costs some 30 ms of CPU, whatever it does.
    """
    chosen = tuple(parts)

    def read_parts(_: int, numbers: range) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            yield from work(number, rows_in_task(chosen[number]))

    return _share_out(spark, len(chosen), read_parts, schema)


def work_in_tasks(
    spark: SparkSession, parts: Sequence[Part], work: Callable[[int, Iterator[pa.RecordBatch]], str]
) -> list[str]:
    """What ``work`` gives for each task, called with its number and the rows of all its parts, in order."""
    chosen = tuple(parts)

    def call(task: int, numbers: range) -> Iterator[pa.RecordBatch]:
        rows = chain.from_iterable(rows_in_task(chosen[number]) for number in numbers)
        yield _result(task, work(task, rows))

    return _in_order(_share_out(spark, len(chosen), call, _RESULT))


def work_on_partitions(frame: DataFrame, work: Callable[[int, Iterator[pa.RecordBatch]], str]) -> list[str]:
    """The same for the rows of a frame, one task for each of its partitions."""

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield _result(context.partitionId(), work(context.partitionId(), batches))

    return _in_order(frame.mapInArrow(call, _RESULT))


def _share_out(
    spark: SparkSession,
    parts: int,
    call: Callable[[int, range], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """What ``call`` makes of each task's number and the numbers of the parts that it takes."""
    tasks = max(1, min(parts, spark.sparkContext.defaultParallelism))
    bounds = [parts * number // tasks for number in range(tasks + 1)]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
            yield from call(task, range(bounds[task], bounds[task + 1]))

    return spark.range(0, tasks, 1, tasks).mapInArrow(run, schema)


def _result(task: int, done: str) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"task": pa.array([task], pa.int32()), "done": pa.array([done])})


def _in_order(results: DataFrame) -> list[str]:
    return [row.done for row in sorted(results.collect(), key=lambda row: row.task)]


def for_each(spark: SparkSession, items: Sequence[Item], work: Callable[[Item], int]) -> list[int]:
    """Call ``work`` with each item in a task of its own; what the successful calls gave."""
    chosen = tuple(items)

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for number in chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
            done = work(chosen[number])
            keep_modules()
            yield pa.RecordBatch.from_pydict({"done": pa.array([done], pa.int64())})

    rows = spark.range(0, len(chosen), 1, len(chosen)).mapInArrow(call, "done bigint").collect()
    return [row.done for row in rows]
