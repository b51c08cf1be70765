"""Entries as Parquet: the typed rows of :mod:`pgsluice.schema.typed.layout`, and messages beside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pgsluice.schema.typed.arrow_rows import typed_arrow
from pgsluice.schema.typed.layout import ABOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.sinks.base import DataStep
    from pgsluice.sinks.files.config import Compression

_MESSAGE: Final = {"prefix": "prefix", "content": "content", **ABOUT}


@dataclass(frozen=True, slots=True)
class ParquetForm:
    """Parquet files with typed columns."""

    compression: Compression
    choices: SpecialValues

    @property
    def suffix(self) -> str:
        """The usual one; Parquet names its compression inside."""
        return ".parquet"

    def through(self, tables: Mapping[int, TableVersion]) -> Callable[[DataFrame], DataFrame] | None:
        """Nothing: rows are typed where they are written."""
        return None

    def few(self, step: DataStep) -> Iterator[pa.RecordBatch]:
        """The entries as they are."""
        return chain.from_iterable(chunk.to_batches() for chunk in step.chunks())

    def write(self, path: str, rows: pa.Table, table: TableVersion | None) -> None:
        """Type the rows and write them."""
        from pyarrow import parquet

        typed = _messages(rows) if table is None else typed_arrow(rows, table, self.choices)
        parquet.write_table(typed, path, compression=self.compression)


def _messages(rows: pa.Table) -> pa.Table:
    return pa.table({name: rows[source] for name, source in _MESSAGE.items()})
