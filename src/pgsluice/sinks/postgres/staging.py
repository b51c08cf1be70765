"""
Rows of text on their way into a statement of the target: few as parameters, more by COPY.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from pgsluice.postgres.copy_in import copy_in
from pgsluice.sinks.postgres.copy_text import copy_text, rows_of
from pgsluice.sinks.postgres.names import copy_into, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pgsluice.postgres.session import Connection

_FEW: Final = 500  # rows that are sent as parameters; for more a temporary table is worth its making


@dataclass(frozen=True, slots=True)
class Source:
    """Something to select text from, with columns c0, c1, …"""

    sql: sql.Composable
    parameters: Sequence[Any] = ()


def cell(alias: str, place: int) -> sql.Composed:
    """A column of a source."""
    return sql.SQL("{}.{}").format(sql.Identifier(alias), sql.Identifier(f"c{place}"))


class Staging:
    """Brings rows to the target over one connection, inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    @contextmanager
    def source(
        self, name: str, columns: Sequence[pa.Array | pa.ChunkedArray], *, joined: bool = True
    ) -> Iterator[Source]:
        """Columns of text as a source, perhaps to be joined; ``name`` tells those of a statement apart."""
        names = [sql.Identifier(f"c{place}") for place in range(len(columns))]
        if len(columns[0]) <= _FEW:
            arrays = listed([sql.SQL("%s::text[]")] * len(columns))
            unnested = sql.SQL("(SELECT * FROM unnest({}) AS u ({}))").format(arrays, listed(names))
            yield Source(unnested, [column.to_pylist() for column in columns])
            return
        table = sql.SQL("pg_temp.{}").format(sql.Identifier(f"pgsluice_{name}"))
        body = listed([sql.SQL("{} text").format(column) for column in names])
        self._conn.execute(sql.SQL("CREATE TABLE {} ({})").format(table, body))
        self.copy(table, (), rows_of(columns), range(len(columns)))
        if joined:
            self._conn.execute(sql.SQL("ANALYZE {}").format(table))  # else the plan is made for a few rows
        yield Source(table)
        # Not in a finally: in a failed transaction this would fail too, and hide why.
        self._conn.execute(sql.SQL("DROP TABLE {}").format(table))

    def copy(
        self,
        into: sql.Composable,
        names: Sequence[sql.Composable],
        rows: pa.ListArray | pa.ChunkedArray,
        columns: Sequence[int],
    ) -> None:
        """Write cells of rows by COPY."""
        with copy_in(self._conn, copy_into(self._conn, into, names)) as copy:
            for piece in copy_text(rows, columns):
                copy.write(piece)
