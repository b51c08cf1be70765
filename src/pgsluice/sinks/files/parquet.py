"""Entries as Parquet: the typed rows of :mod:`pgsluice.schema.typed.layout`, and messages beside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pgsluice.changelog.envelope import IDENTITY, VERSION
from pgsluice.errors import TargetSchemaError
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
_INJECTED: Final = {"_identity": IDENTITY, "_version": VERSION}
_ID: Final = "pgsluice.id"  # in the metadata of the file and of its columns


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
        if table is not None and IDENTITY in rows.column_names:
            typed = _with_identity(typed, rows, table)
        parquet.write_table(typed, path, compression=self.compression)


def _messages(rows: pa.Table) -> pa.Table:
    return pa.table({name: rows[source] for name, source in _MESSAGE.items()})


def _with_identity(typed: pa.Table, rows: pa.Table, table: TableVersion) -> pa.Table:
    """Typed rows with what the injector has found, and with ids that survive renames."""
    for name, source in _INJECTED.items():
        if any(column.name.lower() == name for column in table.columns):
            raise TargetSchemaError(
                f"the column {name} of {table.qualified} has a name that files need after the injector",
                remedy="Rename the column, or leave it out by modifiers.filter.tables",
                table=table.qualified,
                column=name,
            )
        typed = typed.append_column(name, rows[source])
    ids = {column.name: table.column_id(column) for column in table.columns}
    fields = [
        field.with_metadata({_ID: ids[field.name]}) if field.name in ids else field for field in typed.schema
    ]
    return typed.cast(pa.schema(fields, {_ID: str(table.relid)}))
