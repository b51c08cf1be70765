"""An object of the source, with the statement that makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg.rows import namedtuple_row

if TYPE_CHECKING:
    from pgsluice.postgres.session import Connection

# Schemas whose objects are the source's own; in every statement the schema's row is called n.
OWN: Final = "n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'pgsluice')"


class ObjectId(NamedTuple):
    """What PostgreSQL knows an object by: its catalog, and its number there."""

    catalog: int
    oid: int


@dataclass(frozen=True, slots=True)
class Found:
    """One object."""

    id: ObjectId
    kind: str  # as pg_dump names it
    name: str  # for people
    sql: str
    belongs: int = 0  # the table that it is a part of: it goes where that goes
    needs: tuple[ObjectId, ...] = ()  # what has to be there, beside what pg_depend says
    column: int = 0  # of the table that it belongs to: what is only said of that


# Statements that are no object of a catalog have numbers that no catalog has.
ATTACHED_TABLE: Final = -1
ATTACHED_INDEX: Final = -2
OWNED_SEQUENCE: Final = -3


def rows(conn: Connection, query: str) -> list[Any]:
    """The rows of a query that has no parameters, so its per cent signs are its own."""
    with conn.cursor(row_factory=namedtuple_row) as cursor:
        found: list[Any] = cursor.execute(query.encode()).fetchall()
    return found


def read_objects(conn: Connection, query: str) -> list[Found]:
    """
    The objects of a query with the columns catalog, oid, kind, name, sql and belongs.

    Functions that print definitions look at the catalogs of now: what was dropped since has none.
    """
    return [
        Found(
            ObjectId(row.catalog, row.oid),
            row.kind,
            row.name,
            row.sql,
            row.belongs,
            column=getattr(row, "column", 0),
        )
        for row in rows(conn, query)
        if row.sql is not None
    ]
