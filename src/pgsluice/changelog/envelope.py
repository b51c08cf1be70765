"""
The envelope: the one form in which entries travel, as an Arrow schema and as a Spark schema.

Values are PostgreSQL's own text. A column whose TOAST value did not change is NULL in ``values`` and
named by its index (from 0) in ``unchanged``; a NULL that is not named there is a real NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection

INSERT: Final = "I"
UPDATE: Final = "U"
DELETE: Final = "D"
TRUNCATE: Final = "T"  # one row per relation; they share (commit_lsn, seq); content names the options
MESSAGE: Final = "M"  # a logical message: prefix and content
SNAPSHOT: Final = "S"  # a row that was copied, not streamed
SCHEMA_CHANGE: Final = "R"

ENVELOPE: Final = pa.schema(
    [
        pa.field("commit_lsn", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("end_lsn", pa.int64()),
        pa.field("xid", pa.int64()),
        pa.field("commit_ts", pa.timestamp("us", tz="UTC")),
        pa.field("op", pa.string()),
        pa.field("relation", pa.int32()),  # id of the table's version in the schema store
        pa.field("schema", pa.string()),
        pa.field("table", pa.string()),
        pa.field("values", pa.list_(pa.field("element", pa.string()))),
        pa.field(
            "old", pa.list_(pa.field("element", pa.string()))
        ),  # key columns or the whole row; else NULL
        pa.field("unchanged", pa.list_(pa.field("element", pa.int32()))),
        pa.field("prefix", pa.string()),
        pa.field("content", pa.string()),
    ]
)


IDENTITY: Final = "identity"
VERSION: Final = "version"

INJECTED: Final = pa.schema(
    [
        *ENVELOPE,
        pa.field(IDENTITY, pa.list_(pa.field("element", pa.string()))),  # NULL: the table has none
        pa.field(VERSION, pa.int64()),  # grows with the changes of a row
    ]
)
"""The envelope after the injector, for targets that ask for it."""


def schema_of(names: Collection[str]) -> pa.Schema:
    """The schema of entries with these columns."""
    return INJECTED if IDENTITY in names else ENVELOPE


def in_envelope(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that Spark gave back: the same columns, perhaps in a time zone of the session."""
    schema = schema_of(batch.schema.names)
    return batch if batch.schema == schema else batch.cast(schema)


SPARK_ENVELOPE: Final = (
    "commit_lsn bigint, seq bigint, end_lsn bigint, xid bigint, commit_ts timestamp, op string, "
    "relation int, schema string, table string, values array<string>, old array<string>, "
    "unchanged array<int>, prefix string, content string"
)
