"""The changes of the schema that a source has noted, and which versions of it pipelines acknowledge there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg.rows import dict_row

from pgsluice.errors import NotInitializedError
from pgsluice.postgres.session import ANSWER_SECONDS, answering_within, has_relation
from pgsluice.schema.describe import known_objects
from pgsluice.schema.entry import SchemaEntry
from pgsluice.schema.migrate import installed_version
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.event_triggers import require_triggers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.describe import Objects
    from pgsluice.schema.history import SchemaVersion

_LAST: Final = """
SELECT id::text, at::text, by_user, tag, statement, search_path, changes::text, problem
  FROM pgsluice.schema_log l ORDER BY l.id DESC LIMIT %s"""  # not by the text above
_UNREAD: Final = """
SELECT id::text, at::text, by_user, tag, statement, search_path, changes::text, problem
  FROM pgsluice.schema_log l
 WHERE l.id <> ALL (%s) AND at >= (SELECT created_at FROM pgsluice.pipeline WHERE name = %s) ORDER BY l.id"""
_ACKNOWLEDGE: Final = """
INSERT INTO pgsluice.schema_ack AS a (pipeline, schema, version, log_id) VALUES (%s, %s, %s, %s)
    ON CONFLICT (pipeline, schema) DO UPDATE
   SET version = excluded.version, log_id = excluded.log_id, at = excluded.at
 WHERE (a.version, a.log_id) <> (excluded.version, excluded.log_id)"""
_LAST_IDS: Final = "SELECT id FROM pgsluice.schema_log ORDER BY id DESC LIMIT 1000"
_SINCE: Final = 2  # the migration that made the table


def read_log(url: str, limit: int) -> list[SchemaEntry]:
    """The last so many entries, oldest first."""
    with source_errors(url, "read the changes of the schema"), connect(url) as conn:
        _require_log(conn)
        with conn.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_LAST, (limit,)).fetchall()
    return [SchemaEntry.of_row(row) for row in reversed(rows)]


def last_entries(conn: Connection) -> frozenset[int]:
    """
    The numbers of the last entries that a connection sees; none where changes are not noted.

    Not the highest alone: one that was made earlier may be committed later.
    """
    if not has_relation(conn, "pgsluice", "schema_log"):
        return frozenset()
    return frozenset(number for (number,) in conn.execute(_LAST_IDS))


def has_changed_since(url: str, seen: frozenset[int]) -> bool:
    """Whether the schema was changed since the last entries were these."""
    with source_errors(url, "read the changes of the schema"), connect(url) as conn:
        now = last_entries(conn)
    return any(number > min(seen, default=0) for number in now - seen)


@dataclass(frozen=True, slots=True)
class SourceSchema:
    """The source's schema now, and what was changed since a pipeline has read."""

    known: Objects
    unread: list[SchemaEntry]


def read_schema(url: str, pipeline: str, read: Sequence[int]) -> SourceSchema:
    """All objects as the event triggers know them, and the entries of a pipeline's time but for some."""
    with source_errors(url, "read the schema"), connect(url) as conn:
        _require_log(conn)
        require_triggers(conn)
        with (
            conn.transaction(),
            conn.cursor(row_factory=dict_row) as cursor,
        ):
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            rows = cursor.execute(_UNREAD, (list(read), pipeline)).fetchall()
            return SourceSchema(known_objects(conn), [SchemaEntry.of_row(row) for row in rows])


def write_acks(url: str, pipeline: str, versions: Iterable[SchemaVersion]) -> None:
    """Note that all targets of a pipeline have these versions."""
    with (
        source_errors(url, "acknowledge versions of the schema"),
        connect(url) as conn,
        answering_within(conn, ANSWER_SECONDS),
        conn.transaction(),
    ):
        for each in versions:
            conn.execute(_ACKNOWLEDGE, (pipeline, each.schema, each.version, each.log_id))


def read_acks(url: str, pipeline: str) -> dict[str, int]:
    """The version of each schema that a pipeline has acknowledged."""
    with source_errors(url, "read the acknowledged versions"), connect(url) as conn:
        _require_log(conn)
        return dict(
            conn.execute("SELECT schema, version FROM pgsluice.schema_ack WHERE pipeline = %s", (pipeline,))
        )


def _require_log(conn: Connection) -> None:
    version = installed_version(conn)
    if version is None or version < _SINCE:
        raise NotInitializedError(
            f"database {conn.info.dbname} does not note changes of its schema",
            remedy="Run: pgsluice init" + ("" if version is None else " --upgrade"),
        )
