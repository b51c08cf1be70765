"""The columns that a query has, decided when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.schema.typed.layout import typed_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgsluice.source.query.options import ReadOptions


def columns_of(options: ReadOptions) -> pa.Schema:
    """The envelope, or the typed columns of the table as the query's first row will have them."""
    if options.table is None:
        return ENVELOPE
    from pgsluice.source.query.opening import first_version

    return typed_arrow_schema(first_version(options, options.table), options.special)


def as_spark(columns: pa.Schema) -> StructType:
    """The same for Spark; needs no session, of which there is none where Spark asks."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(columns, prefer_timestamp_ntz=True)


def as_arrow(schema: StructType) -> pa.Schema:
    """The way back."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
