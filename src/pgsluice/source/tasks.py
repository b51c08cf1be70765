"""
Decoding ranges of the log, on the driver or inside a Spark task: the same code for both.

Only plain data crosses to the workers; numba and Arrow are loaded where the work is done.
"""

from __future__ import annotations

import gc
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

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


def decode_in_task(part: DecodableRange) -> pa.RecordBatch:
    """The same in a worker of Spark."""
    rows = decode(part)
    _keep_modules()
    return rows


@cache
def _keep_modules() -> None:
    """
    Take what this worker has loaded out of the garbage collector's sight, once.

    A worker collects garbage after each of its tasks. Walking through numba took four fifths of its time.
    """
    gc.freeze()


def envelope_frame(spark: SparkSession, parts: Sequence[DecodableRange]) -> DataFrame:
    """The rows of all ranges as a frame, in their order."""
    from pgsluice.changelog.envelope import SPARK_ENVELOPE

    return for_each_range(spark, parts, lambda _, rows: iter((rows,)), SPARK_ENVELOPE)


def typed_range_frame(
    spark: SparkSession,
    parts: Sequence[DecodableRange],
    version: TableVersion,
    choices: SpecialValues,
    columns: Sequence[str],
) -> DataFrame:
    """The rows of one table version, typed by the tasks that decode them; only these columns travel."""
    from pyspark.sql.types import StructType

    from pgsluice.schema.typed.layout import typed_schema

    def typed(_: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from pgsluice.schema.typed.arrow_rows import typed_arrow

        whole = typed_arrow(pa.Table.from_batches([rows]), version, choices)
        yield from whole.select(list(columns)).to_batches()

    schema = typed_schema(version, choices)
    return for_each_range(spark, parts, typed, StructType([schema[name] for name in columns]))


def for_each_range(
    spark: SparkSession,
    parts: Sequence[DecodableRange],
    work: Callable[[int, pa.RecordBatch], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """
    What ``work`` makes of the rows of each range, in their order.

    A task takes neighbouring ranges one after the other, so its memory is that of one range. There are as
    many tasks as can run at once: each costs some 30 ms of CPU, whatever it does.
    """
    ranges = tuple(parts)
    tasks = max(1, min(len(ranges), spark.sparkContext.defaultParallelism))
    bounds = [len(ranges) * number // tasks for number in range(tasks + 1)]

    def decode_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
            for number in range(bounds[task], bounds[task + 1]):
                yield from work(number, decode_in_task(ranges[number]))

    return spark.range(0, tasks, 1, tasks).mapInArrow(decode_numbers, schema)
