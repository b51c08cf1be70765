"""
What an unfinished first copy has made in the target, and by which statement of the source.

When the source has changed one of these objects before the copy goes on, rows of then and of now would not go
together: what was made goes, and the copy begins again.
"""

# ruff: noqa: S608 - names of tables are constants

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.postgres.session import has_relation
from pgsluice.schema.quotes import quoted
from pgsluice.sinks.postgres.progress import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.statements import SchemaStatement

logger = structlog.get_logger(__name__)

_MADE: Final = f"{SCHEMA}.made"
_DROPPED: Final = ("TABLE", "SEQUENCE", "TYPE", "DOMAIN", "FUNCTION", "PROCEDURE")
"""What rows need, and can be dropped by its name."""


def note_made(conn: Connection, pipeline: str, statement: SchemaStatement) -> None:
    """Note that a statement was run; in its transaction."""
    if statement.kind in _DROPPED:
        conn.execute(
            f"INSERT INTO {_MADE} (pipeline, kind, name, statement) VALUES (%s, %s, %s, %s)",
            (pipeline, statement.kind, statement.name, statement.sql),
        )


def prepare_notes(conn: Connection) -> None:
    """Make the table of notes."""
    conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_MADE} (number bigint GENERATED ALWAYS AS IDENTITY, "
        "pipeline text NOT NULL, kind text NOT NULL, name text NOT NULL, statement text NOT NULL)"
    )


def is_outdated(conn: Connection, pipeline: str, statements: Sequence[SchemaStatement]) -> bool:
    """Whether the source has changed something that was made here."""
    now = {(each.kind, each.name): each.sql for each in statements}
    return any(now.get((kind, name)) != sql for kind, name, sql in _notes(conn, pipeline))


def unmake(conn: Connection, pipeline: str) -> None:
    """Drop what was made, the last one first."""
    for kind, name, _ in reversed(_notes(conn, pipeline)):
        # All that needs it was made by the same copy.
        conn.execute(f"DROP {kind} IF EXISTS {_address(kind, name)} CASCADE".encode())
    forget_notes(conn, pipeline)
    logger.info("what the copy had made in the target is gone, the copy begins again")


def _address(kind: str, name: str) -> str:
    schema, _, rest = name.partition(".")
    if kind not in ("FUNCTION", "PROCEDURE"):
        return f"{quoted(schema)}.{quoted(rest)}"
    routine, paren, arguments = rest.partition("(")
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
