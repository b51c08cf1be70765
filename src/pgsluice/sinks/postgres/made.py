"""
What an unfinished first copy has made in the target, and by which statement of the source.

When the source has changed one of these objects before the copy goes on, rows of then and of now would not go
together: what was made goes, and the copy begins again.
"""

# ruff: noqa: S608 - names of tables are constants

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from psycopg import errors as pg

from pgsluice.postgres.session import has_relation
from pgsluice.schema.quotes import quoted
from pgsluice.sinks.postgres.progress import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.statements import SchemaStatement

logger = structlog.get_logger(__name__)

_MADE: Final = f"{SCHEMA}.made"
_DROPPED: Final = (
    *("TABLE", "MATERIALIZED VIEW", "VIEW", "FUNCTION", "PROCEDURE", "SEQUENCE"),
    *("DOMAIN", "TYPE", "SCHEMA"),
)
"""
What can be dropped by its name, in this order; the rest goes with it.

Tables first: the sequence of an identity column can't be dropped alone.
"""
_ROUTINES: Final = ("FUNCTION", "PROCEDURE")
_MAY_BE_OTHERS: Final = "CREATE SCHEMA IF NOT EXISTS "
_CHANGED: Final = ""  # in the place of a statement: no source has it


def note_made(conn: Connection, pipeline: str, statement: SchemaStatement) -> None:
    """Note that a statement was run; in its transaction."""
    if _MAY_BE_OTHERS in statement.sql:
        return
    conn.execute(
        f"INSERT INTO {_MADE} (pipeline, kind, name, statement) VALUES (%s, %s, %s, %s)",
        (pipeline, statement.kind, _address(statement), statement.sql),
    )


def prepare_notes(conn: Connection) -> None:
    """Make the table of notes."""
    conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_MADE} (number bigint GENERATED ALWAYS AS IDENTITY, "
        "pipeline text NOT NULL, kind text NOT NULL, name text NOT NULL, statement text NOT NULL)"
    )


def is_outdated(conn: Connection, pipeline: str, statements: Sequence[SchemaStatement]) -> bool:
    """Whether the source has changed something that was made here."""
    now = {(each.kind, _address(each), each.sql) for each in statements}
    return any(note not in now for note in _notes(conn, pipeline))


def note_outdated(conn: Connection, pipeline: str) -> None:
    """Let all that was made be outdated, from here on and whatever becomes of the source."""
    if has_relation(conn, SCHEMA, "made"):
        conn.execute(f"UPDATE {_MADE} SET statement = %s WHERE pipeline = %s", (_CHANGED, pipeline))


def unmake(conn: Connection, pipeline: str) -> None:
    """Drop what was made."""
    notes = [*reversed(_notes(conn, pipeline))]
    for dropped in _DROPPED:
        for kind, address, _ in notes:
            if kind == dropped:
                _drop(conn, kind, address)
    forget_notes(conn, pipeline)
    logger.info("what the copy had made in the target is gone, the copy begins again")


def _drop(conn: Connection, kind: str, address: str) -> None:
    if kind != "SCHEMA":  # all that needs it was made by the same copy
        conn.execute(f"DROP {kind} IF EXISTS {address} CASCADE".encode())
        return
    try:
        with conn.transaction():
            conn.execute(f"DROP SCHEMA IF EXISTS {address}".encode())
    except pg.DependentObjectsStillExist:
        logger.info("a schema stays: it has something that the copy has not made", name=address)


def _address(statement: SchemaStatement) -> str:
    """The name of what a statement makes, as SQL."""
    schema, name = statement.place
    if not schema or statement.kind == "SCHEMA":
        return quoted(statement.name)
    if statement.kind not in _ROUTINES:
        return f"{quoted(schema)}.{quoted(name)}"
    routine, paren, arguments = name.partition("(")
    return f"{quoted(schema)}.{quoted(routine)}{paren}{arguments}"


def forget_notes(conn: Connection, pipeline: str) -> None:
    """The copy is finished: from here on changes come with the stream."""
    if has_relation(conn, SCHEMA, "made"):
        conn.execute(f"DELETE FROM {_MADE} WHERE pipeline = %s", (pipeline,))


def _notes(conn: Connection, pipeline: str) -> list[tuple[str, str, str]]:
    if not has_relation(conn, SCHEMA, "made"):
        return []
    query = f"SELECT kind, name, statement FROM {_MADE} WHERE pipeline = %s ORDER BY number"
    return [(kind, name, sql) for kind, name, sql in conn.execute(query, (pipeline,))]
