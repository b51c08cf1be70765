"""
``destroy``: removes what ``init`` made, and nothing else.

The pipeline's record is deleted last, in the same transaction as the publication it names, so a destroy
that was killed is finished by running it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

from pgsluice.errors import ConfigError, MissingRightError
from pgsluice.schema.migrate import installed_version, refuse_newer, remove, schema_exists, schema_is_ours
from pgsluice.source.connect import connect, identify, source_errors
from pgsluice.source.names import DEFAULT_PIPELINE
from pgsluice.source.publication import read_publication
from pgsluice.source.records import (
    PipelineRecord,
    delete_record,
    pass_identity_change_on,
    pipeline_names,
    read_identity_changes,
    read_record,
    resolve_names,
)
from pgsluice.source.slot import drop_slot, in_use, read_slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgsluice.postgres.session import Connection

_LOCK_TIMEOUT: Final = "10s"
_CLAUSES: Final = {"d": "DEFAULT", "n": "NOTHING", "i": "NOTHING"}
"""How a former identity is written; an index that was no longer there can't be named again."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One thing to do, and its words for the report."""

    words: str
    run: Callable[[Connection], object]


@dataclass(frozen=True, slots=True)
class SlotAddress:
    """Which slot of all the world's."""

    system_id: str
    name: str


def slot_of(url: str, name: str = DEFAULT_PIPELINE) -> SlotAddress:
    """The slot that a pipeline has, or had if it is destroyed already."""
    with source_errors(url, "read the pipeline's record"), connect(url) as conn:
        slot = resolve_names(conn, name, None, None).slot
        return SlotAddress(identify(conn).system_id, slot)


def destroy(url: str, name: str = DEFAULT_PIPELINE, *, dry_run: bool = False) -> list[str]:
    """Remove a pipeline from the source; what was done, or with ``dry_run`` would be done, in words."""
    with source_errors(url, "remove what init made"), connect(url) as conn:
        conn.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        version = installed_version(conn)
        if version is not None:
            refuse_newer(version)
        record = read_record(conn, name) if version is not None else None
        others = [other for other in pipeline_names(conn) if other != name] if version is not None else []
        if record is None and others:
            raise ConfigError(f"there is no pipeline {name!r}", remedy=f"There are: {', '.join(others)}")
        before, together = _pipeline_steps(conn, record) if record else ([], [])
        after = [] if others else _schema_steps(conn, installed=version is not None)
        if not dry_run:
            _run(conn, before, together, after)
        return [step.words for step in (*before, *together, *after)]


def _run(conn: Connection, before: list[_Step], together: list[_Step], after: list[_Step]) -> None:
    for step in before:
        step.run(conn)
    with conn.transaction():
        for step in together:
            step.run(conn)
    for step in after:
        step.run(conn)


def _pipeline_steps(conn: Connection, record: PipelineRecord) -> tuple[list[_Step], list[_Step]]:
    state = read_slot(conn, record.slot)
    if state.active_pid:
        raise in_use(state)
    before = []
    if record.slot_made and state.exists:
        before.append(_Step(f"drop slot {record.slot}", lambda c: drop_slot(c, record.slot)))
    together = [*_publication_steps(conn, record), *_identity_steps(conn, record)]
    together.append(_Step(f"forget pipeline {record.name}", lambda c: delete_record(c, record.name)))
    return before, together


def _publication_steps(conn: Connection, record: PipelineRecord) -> list[_Step]:
    found = read_publication(conn, record.publication)
    if not record.publication_made or found is None or found.oid != record.publication_oid:
        return []
    statement = sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(record.publication))
    return [_Step(f"drop publication {record.publication}", lambda c: c.execute(statement))]


def _identity_steps(conn: Connection, record: PipelineRecord) -> list[_Step]:
    """Put identities back, except where another publication needs FULL for UPDATE to work."""
    steps = []
    for change in read_identity_changes(conn, record.name):
        row = conn.execute(
            _TABLE_NOW, {"relid": change.relid, "publication": record.publication_oid}
        ).fetchone()
        if row is None:
            continue  # dropped, or changed by its owner since
        schema, table, needed_by = row
        if needed_by:
            words = f"leave REPLICA IDENTITY FULL on {schema}.{table}: publication {needed_by} needs it"
            steps.append(_Step(words, _passing_on(record.name, change.relid)))
            continue
        clause = _CLAUSES[change.previous]
        statement = sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY {}").format(
            sql.Identifier(schema, table), sql.SQL(clause)
        )
        steps.append(_Step(f"set REPLICA IDENTITY {clause} on {schema}.{table}", _executing(statement)))
    return steps


def _schema_steps(conn: Connection, *, installed: bool) -> list[_Step]:
    if not schema_exists(conn) or not (installed or schema_is_ours(conn)):
        return []
    _require_own_triggers(conn)
    words = "drop schema pgsluice" if schema_is_ours(conn) else "drop our tables in schema pgsluice"
    return [_Step(words, remove)]


def _require_own_triggers(conn: Connection) -> None:
    """Raise before anything is removed, when a superuser has made what another role can't remove."""
    row = conn.execute(
        "SELECT pg_catalog.pg_get_userbyid(evtowner) FROM pg_catalog.pg_event_trigger"
        " WHERE evtname LIKE 'pgsluice\\_%' AND NOT pg_catalog.pg_has_role(evtowner, 'USAGE')"
    ).fetchone()
    if row is not None:
        raise MissingRightError(
            f"the event triggers that init made belong to {row[0]}, and {conn.info.user} may not remove them",
            remedy=f"Run pgsluice destroy as {row[0]} or as a superuser; nothing was removed",
        )


def _executing(statement: sql.Composed) -> Callable[[Connection], object]:
    return lambda conn: conn.execute(statement)


def _passing_on(pipeline: str, relid: int) -> Callable[[Connection], object]:
    return lambda conn: pass_identity_change_on(conn, pipeline, relid)


_TABLE_NOW = """
    SELECT n.nspname, c.relname,
           (SELECT min(p.pubname::text) FROM pg_catalog.pg_publication p
              JOIN pg_catalog.pg_publication_tables t ON t.pubname = p.pubname
              JOIN pg_catalog.pg_class named ON named.relname = t.tablename
               AND named.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = t.schemaname)
             WHERE p.oid <> %(publication)s AND (p.pubupdate OR p.pubdelete)
               AND named.oid IN (c.oid, pg_catalog.pg_partition_root(c.oid)))
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = %(relid)s AND c.relreplident = 'f'"""
