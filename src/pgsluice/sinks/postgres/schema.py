"""Making the source's objects in the target; what is there already stays as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from psycopg import errors as pg
from psycopg import sql

from pgsluice.errors import TargetSchemaError
from pgsluice.postgres.session import has_relation
from pgsluice.sinks.postgres.made import note_made, prepare_notes
from pgsluice.sinks.postgres.names import identifier
from pgsluice.sinks.postgres.obstacles import GRANT
from pgsluice.sinks.postgres.older import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.statements import SchemaStatement

logger = structlog.get_logger(__name__)

DUPLICATES: Final = (
    pg.DuplicateColumn,
    pg.DuplicateFunction,
    pg.DuplicateObject,
    pg.DuplicateSchema,
    pg.DuplicateTable,
)
"""What the server says of something that is there already."""
_THERE_ALREADY: Final = (*DUPLICATES, pg.InvalidTableDefinition)  # a second primary key


_ACTION: Final = re.compile(r"\bON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT|RESTRICT)\b")
_RELATIONS: Final = ("TABLE", "SEQUENCE", "VIEW", "MATERIALIZED VIEW", "INDEX")

# A sequence may run downwards.
_SET_SEQUENCE: Final = """
SELECT pg_catalog.setval(pg_catalog.format('%%I.%%I', s.schemaname, s.sequencename)::regclass, %s)
  FROM pg_catalog.pg_sequences s
 WHERE s.schemaname = %s AND s.sequencename = %s
   AND (s.last_value IS NULL OR (%s - s.last_value) * pg_catalog.sign(s.increment_by::numeric) > 0)"""

_VIEW: Final = """
SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s AND c.relkind = 'm' AND (%s OR NOT c.relispopulated)"""


def make_objects(
    conn: Connection,
    statements: Sequence[SchemaStatement],
    *,
    note_for: str | None = None,
    aside: bool = True,
) -> None:
    """
    Run the statements, each in a transaction of its own.

    ``note_for`` is the pipeline whose copy needs them; ``aside`` is whether triggers will stand aside.

    One that rows need stops the copy; another one (a view over tables that are not copied, a grant to a
    role that is not here) is named, and left out. So is the index of a materialized view that was left out.
    """
    conn.execute("SET check_function_bodies = off")  # a function may name what comes later
    if note_for is not None:
        prepare_notes(conn)
    for given in statements:
        statement = readable(given, conn.info.server_version)
        reason = "the target is too old for it" if statement is None else ""
        if not aside and _acts(given):
            reason = f"it would do again what is done on the source, unless the role may: {GRANT}"
        if statement is None or reason:
            logger.warning("left out", kind=given.kind, name=given.name, reason=reason)
            continue
        try:
            with conn.transaction():
                conn.execute(statement.sql.encode())
                if note_for is not None:
                    note_made(conn, note_for, given)
        except _THERE_ALREADY:
            continue
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            if isinstance(error, pg.WrongObjectType) and statement.kind.endswith(" ATTACH"):
                continue  # it is a partition already
            if _is_there(conn, statement):  # made by hand, where the target's version needs other words
                continue
            said = error.diag.message_primary or str(error)
            of_nothing = statement.kind == "INDEX" and isinstance(error, pg.UndefinedTable)
            if statement.carries_rows and not of_nothing:
                raise TargetSchemaError(
                    f"the target refuses {statement.kind} {statement.name} of the source: {said}",
                    remedy="Make it there by hand, or what it needs, and start again; or leave its table out",
                    name=statement.name,
                ) from error
            logger.warning("left out", kind=statement.kind, name=statement.name, reason=said)
    conn.execute("RESET check_function_bodies")


def _acts(statement: SchemaStatement) -> bool:
    """Whether it does something of its own when rows are written."""
    if statement.kind == "FK CONSTRAINT":
        return _ACTION.search(statement.sql) is not None
    return statement.kind in ("TRIGGER", "RULE") and " DISABLE " not in statement.sql


def _is_there(conn: Connection, statement: SchemaStatement) -> bool:
    """Whether the target has a relation of that name."""
    return statement.kind in _RELATIONS and has_relation(conn, *statement.place)


def set_sequences(conn: Connection, values: Mapping[tuple[str, str], int]) -> None:
    """Bring the target's sequences to these values, unless they are further already or not there."""
    for (schema, name), value in values.items():
        conn.execute(_SET_SEQUENCE, (value, schema, name, value))


def fill_views(conn: Connection, names: Sequence[tuple[str, str]], *, again: bool = False) -> None:
    """Fill materialized views that have never been filled, or all ``again``; one may read from another."""
    left = [name for name in names if conn.execute(_VIEW, (*name, again)).rowcount]
    reasons: dict[tuple[str, str], str] = {}
    while left:
        waiting = [name for name in left if not _is_filled(conn, name, reasons)]
        if waiting == left:
            break
        left = waiting
    for name in left:
        logger.warning("materialized view not filled", name=".".join(name), reason=reasons[name])


def _is_filled(conn: Connection, name: tuple[str, str], reasons: dict[tuple[str, str], str]) -> bool:
    try:
        conn.execute(sql.SQL("REFRESH MATERIALIZED VIEW {}").format(identifier(*name)), ())
    except psycopg.OperationalError as error:
        if not isinstance(error, pg.ObjectNotInPrerequisiteState):  # it reads from one that is not filled yet
            raise
        reasons[name] = error.diag.message_primary or ""
        return False
    except psycopg.Error as error:
        reasons[name] = error.diag.message_primary or ""
        return False
    return True
