"""
The event triggers that write changes of the schema into the stream, and the publication that carries them.

Only a superuser may make them. Without them changes of columns are still seen, by the Relation messages of
the stream; other changes are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from psycopg import errors as pg

from pgsluice.changelog.position import Lsn
from pgsluice.errors import NotInitializedError

if TYPE_CHECKING:
    from pgsluice.postgres.session import Connection

SCHEMA_PUBLICATION: Final = "pgsluice_schema"
_TRIGGERS: Final = {
    "pgsluice_ddl_command_end": "ON ddl_command_end EXECUTE FUNCTION pgsluice.note_ddl()",
    "pgsluice_sql_drop": "ON sql_drop EXECUTE FUNCTION pgsluice.note_ddl()",
    "pgsluice_table_rewrite": "ON table_rewrite EXECUTE FUNCTION pgsluice.note_ddl()",
    # By its name after the first: a table is noted, and then what is done to it.
    "pgsluice_identity": "ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO',"
    " 'ALTER TABLE') EXECUTE FUNCTION pgsluice.keep_writable()",
}
_MADE: Final = "made by pgsluice init at "


def install_triggers(conn: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make what is missing; gives what was done, and what should be known, in words."""
    if has_triggers(conn):
        return (), ()
    try:
        with conn.transaction():
            for name, when in _TRIGGERS.items():
                conn.execute(f"DROP EVENT TRIGGER IF EXISTS {name}")
                conn.execute(f"CREATE EVENT TRIGGER {name} {when}")
                # Also for sessions that stand aside, as those of other replication do.
                conn.execute(f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS")
            conn.execute("SELECT pgsluice.know_all()")
            conn.execute(f"DROP PUBLICATION IF EXISTS {SCHEMA_PUBLICATION}")
            conn.execute(
                f"CREATE PUBLICATION {SCHEMA_PUBLICATION} FOR TABLE pgsluice.schema_log"
                " WITH (publish = 'insert')"
            )
    except pg.InsufficientPrivilege as exc:
        unseen = (
            f"no event triggers ({exc.diag.message_primary}): of the schema, only changes of columns are "
            "seen; run init once as a superuser to have all of them"
        )
        return (), (unseen,)
    return ("make event triggers, for changes of the schema",), ()


def note_where(conn: Connection) -> None:
    """After it is committed, note where that was: a stream that begins before can't have this publication."""
    if _comment(conn) != "":
        return
    conn.execute(
        f"DO $$ BEGIN EXECUTE format('COMMENT ON PUBLICATION {SCHEMA_PUBLICATION} IS %L',"
        f" '{_MADE}' || pg_catalog.pg_current_wal_insert_lsn()); END $$"
    )


def schema_publication(conn: Connection, start: Lsn) -> tuple[str, ...]:
    """The publication of schema changes, if a stream that begins there can have it."""
    comment = _comment(conn)
    if comment is None or not comment.startswith(_MADE):
        return ()
    return (SCHEMA_PUBLICATION,) if Lsn.parse(comment.removeprefix(_MADE)) <= start else ()


def _comment(conn: Connection) -> str | None:
    """What is said of the publication; None without one."""
    row = conn.execute(
        "SELECT coalesce(pg_catalog.obj_description(oid, 'pg_publication'), '')"
        " FROM pg_catalog.pg_publication WHERE pubname = %s",
        (SCHEMA_PUBLICATION,),
    ).fetchone()
    return None if row is None else str(row[0])


def require_triggers(conn: Connection) -> None:
    """Raise when changes of the schema are not noted."""
    if not has_triggers(conn):
        raise NotInitializedError(
            f"database {conn.info.dbname} has no event triggers: changes of its schema are not noted",
            remedy="Run pgsluice init once as a superuser, without --no-event-triggers",
        )


def has_triggers(conn: Connection) -> bool:
    """Whether changes of the schema are noted."""
    row = conn.execute(
        "SELECT count(*) FROM pg_catalog.pg_event_trigger WHERE evtname = ANY(%s) AND evtenabled = 'A'",
        ([*_TRIGGERS],),
    ).fetchone()
    assert row is not None
    return row[0] == len(_TRIGGERS) and _comment(conn) is not None
