"""
Names as parts of statements that have parameters.

Psycopg takes a per cent sign anywhere in such a statement for a placeholder, also inside of quotes: it is
doubled. So every statement that is composed of these names is executed with parameters, be they none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pgsluice.postgres.session import Connection


def identifier(*parts: str) -> sql.Identifier:
    """A quoted name."""
    return sql.Identifier(*(part.replace("%", "%%") for part in parts))


def type_name(text: str) -> sql.SQL:
    """A type's name as the catalog quotes it."""
    return sql.SQL(text.replace("%", "%%"))


def listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    """Parts with commas between them."""
    return sql.SQL(", ").join(parts)


def copy_into(
    conn: Connection, table: sql.Composable, columns: Sequence[sql.Composable], *, binary: bool = False
) -> bytes:
    """The statement that reads rows by COPY; it has no parameters, so its names are not doubled."""
    chosen = sql.SQL(" ({})").format(listed(columns)) if columns else sql.SQL("")
    form = sql.SQL(" (FORMAT binary)" if binary else "")
    statement = sql.SQL("COPY {}{} FROM STDIN{}").format(table, chosen, form).as_string(conn)
    return statement.replace("%%", "%").encode()
