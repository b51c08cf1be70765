"""
One checksum of a table's contents, the same whoever computes it: PostgreSQL, DuckDB or Spark.

The sum over all rows of the first 15 hexadecimal digits of md5 of the row's values, written in a form
that all three agree on. It knows nothing of order; a lost, doubled or changed row moves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
from psycopg import sql

from bench.harness import WrongResultError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg
    from pyspark.sql import DataFrame

_TEXTS: Final = "id, quantity, sku, description, price"
_IN_POSTGRES: Final = f"""
    SELECT count(*), sum(('x' || substr(md5(concat_ws('|', {_TEXTS},
        (extract(epoch FROM changed_at) * 1000000)::int8, active::int, (score * 8)::int8)),
        1, 15))::bit(60)::int8)
    FROM {{}}"""
_IN_DUCKDB: Final = f"""
    SELECT count(*), sum(('0x' || substr(md5(concat_ws('|', {_TEXTS},
        epoch_us(changed_at), active::INT, (score * 8)::INT8)), 1, 15))::INT8)
    FROM """
# What a log holds is text.
_FROM_TEXT: Final = """(
    SELECT v[1] AS id, v[2] AS quantity, v[3] AS sku, v[4] AS description, v[5] AS price,
           v[6]::TIMESTAMPTZ AS changed_at, v[7] = 't' AS active, v[8]::FLOAT8 AS score FROM rows)"""
_IN_SPARK: Final = f"""cast(conv(substr(md5(concat_ws('|', {_TEXTS},
        unix_micros(changed_at), cast(active AS int), cast(score * 8 AS bigint))), 1, 15), 16, 10)
    AS decimal(38, 0))"""


@dataclass(frozen=True, slots=True)
class Checksum:
    """How many rows, and what is in them."""

    rows: int
    total: int

    def require(self, other: Checksum, where: str) -> None:
        """Refuse a result that is not what the source holds."""
        if other != self:
            raise WrongResultError(
                f"{where} has {other.rows} rows, checksum {other.total}; "
                f"the source has {self.rows}, checksum {self.total}"
            )


def source_checksum(connection: psycopg.Connection[Any], table: str) -> Checksum:
    """Of a table of the source."""
    return _checksum(connection.execute(sql.SQL(_IN_POSTGRES).format(sql.Identifier(table))).fetchone())


def duckdb_checksum(connection: duckdb.DuckDBPyConnection, table: str) -> Checksum:
    """Of a table of a DuckDB file."""
    return _checksum(connection.execute(f'{_IN_DUCKDB} public."{table}"').fetchall()[0])


def envelope_checksum(batches: Iterable[pa.RecordBatch]) -> Checksum:
    """Of rows in the envelope, all inserted."""
    rows = total = 0
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for batch in batches:
            connection.register("rows", pa.table({"v": batch.column("values")}))
            found = _checksum(connection.execute(_IN_DUCKDB + _FROM_TEXT).fetchall()[0])
            rows, total = rows + found.rows, total + found.total
    return Checksum(rows, total)


def spark_checksum(frame: DataFrame) -> Checksum:
    """Of typed rows, all inserted."""
    row = frame.selectExpr("count(*)", f"sum({_IN_SPARK})").collect()[0]
    return _checksum((row[0], row[1]))


def _checksum(found: tuple[Any, ...] | None) -> Checksum:
    assert found is not None
    return Checksum(int(found[0]), int(found[1] or 0))
