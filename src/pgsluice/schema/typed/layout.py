"""
The columns of typed rows: the table's own, then those that say what happened.

========================  ==================  ======================================================
``_op``                   string              I, U, D, T or S, as in the envelope
``_lsn``, ``_seq``        bigint              the position: commit LSN and number in the transaction
``_xid``, ``_ts``         bigint, timestamp   the transaction and when it committed
``_unchanged``            array<string>       columns whose large value did not change: NULL here, but
                                              not NULL in the row; never NULL itself
``_old``                  map<string,string>  the old row as text: the replica identity's columns, all
                                              of them with FULL; NULL when the stream sent none
``_untyped``              map<string,string>  text of values that their typed column can't hold as they
                                              are; NULL when there are none, which is the rule
========================  ==================  ======================================================

A deleted row's columns hold what the stream sent of it, so a merge finds its key there. ``_old`` is
text: its columns differ with the replica identity, and a typed copy would need marks of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pgsluice.errors import TargetSchemaError
from pgsluice.schema.typed.shape import Shape, arrow_type, shape_of, spark_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues

TEXT_BY_NAME: Final = pa.map_(pa.string(), pa.string())
NAMES: Final = pa.list_(pa.field("element", pa.string()))

ABOUT_FIELDS: Final = (
    pa.field("_op", pa.string()),
    pa.field("_lsn", pa.int64()),
    pa.field("_seq", pa.int64()),
    pa.field("_xid", pa.int64()),
    pa.field("_ts", pa.timestamp("us", tz="UTC")),
    pa.field("_unchanged", NAMES),
    pa.field("_old", TEXT_BY_NAME),
    pa.field("_untyped", TEXT_BY_NAME),
)
"""The columns beside the table's own."""

ABOUT: Final = {"_op": "op", "_lsn": "commit_lsn", "_seq": "seq", "_xid": "xid", "_ts": "commit_ts"}
"""Columns that are taken from the envelope as they are."""


def shapes_of(version: TableVersion, choices: SpecialValues) -> tuple[Shape, ...]:
    """What each column of the table becomes; refuses names that typed rows need themselves."""
    taken = {field.name for field in ABOUT_FIELDS}
    clash = [column.name for column in version.columns if column.name.lower() in taken]
    if clash:
        raise TargetSchemaError(
            f"the column {clash[0]} of {version.qualified} has a name that typed rows need themselves",
            remedy="Rename the column, or read the table in the envelope",
            table=version.qualified,
            column=clash[0],
        )
    return tuple(shape_of(column.type, choices) for column in version.columns)


def old_columns(version: TableVersion) -> tuple[int, ...]:
    """The columns that an old row can have: those of the replica identity, or all."""
    return tuple(
        i for i, column in enumerate(version.columns) if version.identity == "f" or column.in_identity
    )


def typed_schema(version: TableVersion, choices: SpecialValues) -> StructType:
    """The Spark schema of the table's typed rows."""
    from pyspark.sql import types as t

    shapes = shapes_of(version, choices)
    own = [t.StructField(c.name, spark_type(shape)) for c, shape in zip(version.columns, shapes, strict=True)]
    text_by_name = t.MapType(t.StringType(), t.StringType())
    about = {
        "_op": t.StringType(),
        "_lsn": t.LongType(),
        "_seq": t.LongType(),
        "_xid": t.LongType(),
        "_ts": t.TimestampType(),
        "_unchanged": t.ArrayType(t.StringType()),
        "_old": text_by_name,
        "_untyped": text_by_name,
    }
    return t.StructType([*own, *(t.StructField(name, kind) for name, kind in about.items())])


def typed_arrow_schema(version: TableVersion, choices: SpecialValues) -> pa.Schema:
    """The Arrow schema of the table's typed rows: exactly what Spark demands for its own."""
    shapes = shapes_of(version, choices)
    own = [pa.field(c.name, arrow_type(shape)) for c, shape in zip(version.columns, shapes, strict=True)]
    return pa.schema([*own, *ABOUT_FIELDS])
