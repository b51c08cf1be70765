"""A sink that has every row typed and throws it away: what Spark itself costs, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.schema.typed.choices import SpecialValues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgsluice.sinks.base import Batch, DataStep, SinkContext

COLUMNS: Final = ("id", "quantity", "sku", "description", "price", "changed_at", "active", "score")


class TypedNoopSink:
    """Writes the eight typed columns of each batch to Spark's ``noop``."""

    def open(self, context: SinkContext) -> str | None:
        """Nothing is kept, so nothing is held."""
        return None

    def apply(self, batch: Batch) -> None:
        """One job per step."""
        for step in batch.steps:
            throw_away(typed(step))

    def close(self) -> None:
        """Nothing to let go of."""


def typed(step: DataStep) -> DataFrame:
    """The typed rows of a step that has one table."""
    (number,) = step.tables
    return step.typed(number, SpecialValues(), COLUMNS)


def throw_away(frame: DataFrame) -> None:
    """Compute everything and write nothing."""
    frame.write.format("noop").mode("overwrite").save()
