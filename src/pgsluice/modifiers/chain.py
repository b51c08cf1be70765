"""
The chain of modifiers: a list of functions from DataFrame to DataFrame, applied in order.

A modifier keeps the envelope's columns. It sees the rows of a large batch as a distributed frame and
those of a small one as a local relation, which Spark evaluates without a job as long as the chain is
projections and filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pgsluice.changelog.envelope import ENVELOPE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.schema.table import TableVersion

Modifier = Callable[["DataFrame", Mapping[int, "TableVersion"]], "DataFrame"]
"""Takes entries and the table versions that they name; gives entries."""


class Chain:
    """Modifiers in the order of the configuration. Empty is false."""

    def __init__(self, modifiers: Sequence[Modifier] = ()) -> None:
        self._modifiers = tuple(modifiers)

    def __len__(self) -> int:
        return len(self._modifiers)

    def apply(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The frame after every modifier."""
        for modifier in self._modifiers:
            frame = modifier(frame, tables)
        return frame

    def apply_local(
        self, rows: pa.Table, tables: Mapping[int, TableVersion], spark: Callable[[], SparkSession]
    ) -> pa.Table:
        """The same for a small Arrow table, without a Spark job."""
        import pyarrow as pa
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        frame = self.apply(spark().createDataFrame(rows), tables)
        # Collected as plain values: toArrow would be a job, and a timestamp would come in local time.
        collected = frame.withColumn("commit_ts", F.unix_micros("commit_ts")).collect()
        columns = {
            field.name: pa.array(
                [row[field.name] for row in collected],
                pa.int64() if field.name == "commit_ts" else field.type,
            )
            for field in ENVELOPE
        }
        columns["commit_ts"] = columns["commit_ts"].cast(ENVELOPE.field("commit_ts").type)
        return pa.table(columns, schema=ENVELOPE)
