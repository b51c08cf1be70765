"""
What the tests of typed rows share: a table of all cases, envelopes, and values back to text.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
from psycopg import sql

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.postgres.session import PINNED_SETTINGS
from pgsluice.schema.catalog import describe_types
from pgsluice.schema.pgtypes import resolve
from pgsluice.schema.table import Column, PgType, TableVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.schema.typed import SpecialValues

VERSION_ID = 7
LSN = 0x1_016B3748
COMMITTED = datetime(2024, 1, 2, 3, 4, 5, 678901, UTC)


def pinned(url: str) -> psycopg.Connection:
    """A connection with the settings that all of ours have."""
    conn = psycopg.connect(url, autocommit=True)
    for name, value in PINNED_SETTINGS.items():
        conn.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
    return conn


def declare(conn: psycopg.Connection, types: Sequence[str]) -> list[PgType]:
    """The types of columns that are declared so, learnt as the product learns them."""
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(f"c{i}"), sql.SQL(name)) for i, name in enumerate(types)
    )
    conn.execute("DROP TABLE IF EXISTS public.declared")
    conn.execute(sql.SQL("CREATE TABLE public.declared ({})").format(columns))
    rows = conn.execute(
        "SELECT atttypid::int8, atttypmod FROM pg_attribute"
        " WHERE attrelid = 'public.declared'::regclass AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    extra = describe_types(conn, [oid for oid, _ in rows])
    return [resolve(oid, typmod, extra) for oid, typmod in rows]


def texts(conn: psycopg.Connection, declared: str, values: Sequence[str | None]) -> list[str | None]:
    """PostgreSQL's text of values of a type."""
    # "char"::text and char(n)::text drop what their output function writes; format() does not.
    query = sql.SQL("SELECT CASE WHEN v IS NOT NULL THEN format('%%s', v::{}) END FROM unnest(%s::text[])"
                    " WITH ORDINALITY AS u(v, n) ORDER BY n")  # fmt: skip
    return [text for (text,) in conn.execute(query.format(sql.SQL(declared)), (list(values),))]


def version_of(types: Sequence[PgType], names: Sequence[str] | None = None, **more: Any) -> TableVersion:
    """A table version with these columns."""
    names = names or [f"c{i}" for i in range(len(types))]
    columns = tuple(
        Column(name, kind, i == 0) for i, (name, kind) in enumerate(zip(names, types, strict=True))
    )
    return TableVersion(**{"id": VERSION_ID, "relid": 1, "schema": "public", "name": "odd", "identity": "d",
                           "columns": columns, **more})  # fmt: skip


def envelope(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Envelopes from what differs: ``values`` and so on."""
    usual = {"commit_lsn": LSN, "end_lsn": LSN + 48, "xid": 700, "op": "I", "relation": VERSION_ID,
             "schema": "public", "table": "odd", "commit_ts": COMMITTED}  # fmt: skip
    return pa.Table.from_pylist(
        [{**usual, "seq": i + 1, **row} for i, row in enumerate(rows)], schema=ENVELOPE
    )


def by_columns(columns: Sequence[Sequence[str | None]]) -> pa.Table:
    """Envelopes whose rows are these columns side by side, the short ones filled up with NULL."""
    height = max(map(len, columns))
    filled = [[*column, *[None] * (height - len(column))] for column in columns]
    return envelope([{"values": list(row)} for row in zip(*filled, strict=True)])


def as_input(value: Any) -> Any:
    """A typed value as text that PostgreSQL reads; lists stay lists."""
    match value:
        case list():
            return [as_input(item) for item in value]
        case bytes():
            return f"\\x{value.hex()}"
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case None | str():
            return value
    return repr(value)


def by_spark(spark: SparkSession, rows: pa.Table, version: TableVersion, choices: SpecialValues) -> pa.Table:
    """The typed rows that Spark makes, as Arrow, in order."""
    return frame_of(spark, rows, version, choices).orderBy("_lsn", "_seq").toArrow()


def frame_of(spark: SparkSession, rows: pa.Table, version: TableVersion, choices: SpecialValues) -> DataFrame:
    """The typed frame of some envelopes."""
    from pgsluice.schema.typed.spark_rows import typed_frame

    return typed_frame(spark.createDataFrame(rows), version, choices)


def same(left: pa.Table, right: pa.Table) -> None:
    """Both tables have the same types and values; NaN equals NaN, and -0.0 is not 0.0."""
    assert [(f.name, f.type) for f in left.schema] == [(f.name, f.type) for f in right.schema]
    for name in left.column_names:
        assert list(map(repr, left[name].to_pylist())) == list(map(repr, right[name].to_pylist())), name
