"""
Tables that are filled beside those they will replace.

The new rows are put into the old table, which so keeps its indexes, rights, and what refers to it. They are
deleted and not truncated: readers go on seeing the old ones until the new ones are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from pgsluice.sinks.postgres.names import identifier, listed

if TYPE_CHECKING:
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.postgres.target import TargetTable


def make_beside(conn: Connection, table: TargetTable, beside: TableVersion) -> None:
    """Make an empty table with the columns of another one, and a key to find its rows by."""
    name = identifier(beside.schema, beside.name)
    conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name), ())
    like = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING GENERATED INCLUDING STORAGE)")
    conn.execute(like.format(name, table.name), ())
    if table.key:
        key = listed([column.identifier for column in table.key])
        conn.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(name, key), ())


def swap(conn: Connection, table: TargetTable, beside: TargetTable) -> None:
    """Put the rows of the table beside in the place of the old ones, and drop it."""
    names = listed([column.identifier for column in table.columns])
    delete = sql.SQL("DELETE FROM {}").format(table.rows)
    insert = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}").format(
        table.name, names, names, beside.name
    )
    if table.checked:
        # Foreign keys are looked at when a statement is over: one that deletes first, then inserts.
        both = sql.SQL("WITH gone AS ({} RETURNING 1) {} CROSS JOIN (SELECT count(*) FROM gone) counted")
        conn.execute(both.format(delete, insert), ())
    else:
        conn.execute(delete, ())
        conn.execute(insert, ())
    conn.execute(sql.SQL("DROP TABLE {}").format(beside.name), ())
