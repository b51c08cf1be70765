"""
The ways in which rows get to a sink.

Each is a function that makes a batch of one step from envelope rows; the suite runs through all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pgsluice.testing.batches import LocalBatch, LocalStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Batch


class Way(Protocol):
    """Makes a batch of one step."""

    def __call__(
        self,
        rows: pa.Table,
        tables: Mapping[int, TableVersion],
        *,
        start: str | None,
        end: str,
        chunk_rows: int,
    ) -> Batch:
        """A batch with these rows; ``chunk_rows`` is how many come at a time, where the way allows it."""
        ...


def short(
    rows: pa.Table, tables: Mapping[int, TableVersion], *, start: str | None, end: str, chunk_rows: int
) -> Batch:
    """The rows are on the driver already."""
    return LocalBatch(start, end, [LocalStep(tables, rows, chunk_rows)])


WAYS: dict[str, Way] = {"short": short}

NEED_SPARK: frozenset[str] = frozenset()
"""Ways that need the Spark session whatever the sink."""
