"""
Decoding ranges of the log, on the driver or inside a Spark task: the same code for both.

Only plain data crosses to the workers; numba and Arrow are loaded where the work is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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


def envelope_frame(spark: SparkSession, parts: Sequence[DecodableRange]) -> DataFrame:
    """The rows of all ranges as a frame: one task per range, in their order."""
    from pgsluice.changelog.envelope import SPARK_ENVELOPE

    ranges = tuple(parts)

    def decode_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield decode(ranges[number])

    return spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(decode_numbers, SPARK_ENVELOPE)
