"""The columns that a query has, decided when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.schema.typed.layout import typed_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.source.query.options import ReadOptions


def columns_of(options: ReadOptions) -> StructType:
    """The envelope, or the typed columns of the table as the query's first row will have them."""
    if options.table is None:
        return envelope_columns()
    from pgsluice.source.query.opening import first_version

    return typed_columns(first_version(options, options.table), options.special)


def table_columns(options: ReadOptions) -> StructType:
    """The columns of a table that is read as a batch."""
    from pgsluice.source.scan.plan import columns_of_table

    return _as_spark(columns_of_table(options, about=not options.table_alone))


def envelope_columns() -> StructType:
    """The columns of a query over all tables."""
    return _as_spark(ENVELOPE)


def typed_columns(version: TableVersion, special: SpecialValues) -> StructType:
    """The columns of a query over one table."""
    return _as_spark(typed_arrow_schema(version, special))


def _as_spark(columns: pa.Schema) -> StructType:
    # Not from a string with types, as that needs a session, and there is none where Spark asks.
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns, prefer_timestamp_ntz=True)
