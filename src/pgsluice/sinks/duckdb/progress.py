"""
The progress token beside the data, and the fence around it.

One row per pipeline. ``epoch`` grows with every opener; only the newest one can move the token, and only
from the token it was told to start at.
"""

# ruff: noqa: S608 - identifiers are quoted and values are bound or Arrow; DuckDB has no builder for SQL

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgsluice.errors import TargetFencedError
from pgsluice.sinks.duckdb.sql import database_name, first_row, quoted

if TYPE_CHECKING:
    from pgsluice.sinks.base import Batch

SCHEMA: Final = "pgsluice"
_COLUMNS: Final = (
    "pipeline VARCHAR NOT NULL, token VARCHAR, epoch BIGINT NOT NULL, updated_at TIMESTAMP WITH TIME ZONE"
)


class ProgressRow:
    """The row of one pipeline. Every method runs inside the caller's transaction."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._epoch = 0
        self._table = ""

    def take_over(self, connection: Any) -> str | None:
        """Become the newest opener; the token that is kept."""
        database = database_name(connection)
        self._table = quoted(database, SCHEMA, "progress")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database, SCHEMA)}")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({_COLUMNS})")
        query = f"SELECT token, epoch FROM {self._table} WHERE pipeline = ?"
        kept = first_row(connection, query, [self._pipeline])
        if kept is None:
            kept = (None, 0)
            connection.execute(f"INSERT INTO {self._table} VALUES (?, NULL, 0, now())", [self._pipeline])
        token, self._epoch = kept[0], kept[1] + 1
        connection.execute(
            f"UPDATE {self._table} SET epoch = ? WHERE pipeline = ?", [self._epoch, self._pipeline]
        )
        return None if token is None else str(token)

    def holds(self, batch: Batch, connection: Any) -> bool:
        """Whether the batch is in the target already: it was committed, but its reply was lost."""
        query = f"SELECT token FROM {self._table} WHERE pipeline = ? AND epoch = ?"
        kept = first_row(connection, query, [self._pipeline, self._epoch])
        if kept is None or kept[0] not in (batch.start, batch.end):
            raise self._fenced()
        return bool(kept[0] == batch.end != batch.start)

    def move(self, batch: Batch, connection: Any) -> None:
        """Set the batch's token, beside its rows."""
        statement = (
            f"UPDATE {self._table} SET token = ?, updated_at = now() "
            "WHERE pipeline = ? AND epoch = ? AND token IS NOT DISTINCT FROM ?"
        )
        moved = first_row(connection, statement, [batch.end, self._pipeline, self._epoch, batch.start])
        if moved != (1,):
            raise self._fenced()

    def remove(self, connection: Any) -> None:
        """Forget the pipeline."""
        table = quoted(database_name(connection), SCHEMA, "progress")
        connection.execute(f"DELETE FROM {table} WHERE pipeline = ?", [self._pipeline])

    def _fenced(self) -> TargetFencedError:
        return TargetFencedError(
            f"another run of the pipeline {self._pipeline} has moved on in this DuckDB file",
            remedy="Let only one run write to it, or give the second pipeline a name of its own",
            pipeline=self._pipeline,
        )
