"""
Tables that are filled beside those they will replace.

The new rows are put into the old table, which so keeps its indexes, rights, and what refers to it. They are
deleted and not truncated: readers go on seeing the old ones until the new ones are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from pgsluice.errors import TargetError
from pgsluice.sinks.postgres.names import identifier, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.postgres.config import OnConflict
    from pgsluice.sinks.postgres.target import TargetTable


def make_beside(conn: Connection, table: TargetTable, beside: TableVersion) -> None:
    """Make an empty table with the columns of another one, and a key to find its rows by."""
    drop_beside(conn, beside)
    name = identifier(beside.schema, beside.name)
    like = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING GENERATED INCLUDING STORAGE)")
    conn.execute(like.format(name, table.name), ())
    if table.key:
        key = listed([column.identifier for column in table.key])
        conn.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(name, key), ())


def note_shape(conn: Connection, beside: TableVersion) -> None:
    """Say what it was made for, for who finds it later."""
    statement = sql.SQL("COMMENT ON TABLE {} IS {}")
    conn.execute(statement.format(identifier(beside.schema, beside.name), sql.Literal(beside.shape)), ())


def drop_beside(conn: Connection, beside: TableVersion) -> None:
    """Remove a table that was to replace another one."""
    conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(identifier(beside.schema, beside.name)), ())


@dataclass(frozen=True, slots=True)
class Placed:
    """A table, and the one beside it whose rows it gets."""

    table: TargetTable
    beside: TargetTable
    on_conflict: OnConflict | None  # None: the rows of before go

    @property
    def going(self) -> sql.Composed | None:
        """The statement that removes what the new rows replace."""
        if self.on_conflict is None:
            return sql.SQL("DELETE FROM {}").format(self.table.rows)
        if self.on_conflict != "update" or not self.table.key:
            return None
        same = sql.SQL(" AND ").join(
            sql.SQL("t.{} {} b.{}").format(column.identifier, column.equality, column.identifier)
            for column in self.table.key
        )
        return sql.SQL("DELETE FROM {} t USING {} b WHERE {}").format(self.table.rows, self.beside.name, same)

    def coming(self, waits: sql.Composable) -> sql.Composed:
        """The statement that puts the new rows in."""
        names = listed([column.identifier for column in self.table.columns])
        tail = sql.SQL(" ON CONFLICT DO NOTHING" if self.on_conflict == "nothing" else "")
        return sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}{}{}").format(
            self.table.name, names, names, self.beside.name, waits, tail
        )


def swap(conn: Connection, placed: Sequence[Placed]) -> None:
    """Put the rows of the tables beside in their places, and drop these."""
    for each in placed:
        if each.on_conflict == "error":
            require_empty(conn, each.table)
    _swap_together(conn, [each for each in placed if each.table.checked])
    for each in placed:
        if not each.table.checked:
            if each.going is not None:
                conn.execute(each.going, ())
            conn.execute(each.coming(sql.SQL("")), ())
        conn.execute(sql.SQL("DROP TABLE {}").format(each.beside.name), ())


def _swap_together(conn: Connection, placed: Sequence[Placed]) -> None:
    """In one statement, since foreign keys are looked at when it is over: all deletes, then all inserts."""
    parts: list[sql.Composable] = []
    for number, each in enumerate(placed):
        waits: sql.Composable = sql.SQL("")
        if each.going is not None:
            gone = sql.Identifier(f"gone{number}")
            parts.append(sql.SQL("{} AS ({} RETURNING 1)").format(gone, each.going))
            waits = sql.SQL(" CROSS JOIN (SELECT count(*) FROM {}) counted").format(gone)
        put = sql.Identifier(f"put{number}")
        parts.append(sql.SQL("{} AS ({} RETURNING 1)").format(put, each.coming(waits)))
    if parts:
        conn.execute(sql.SQL("WITH {} SELECT 1").format(listed(parts)), ())


def require_empty(conn: Connection, table: TargetTable) -> None:
    """Raise if a table that is copied for the first time has rows."""
    if conn.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(table.rows), ()).rowcount:
        raise TargetError(
            f"the target's table {table.version.qualified} has rows that are not from this pipeline",
            remedy="Empty it; or let pgsluice drop the tables before the first copy (clean: true), or keep "
            "what is there (on_conflict: update, or nothing)",
            table=table.version.qualified,
        )
