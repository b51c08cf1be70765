"""
``init``: prepares a source so that killing it anywhere and running it again ends in the same state.

The order matters: schema and records, then the publication, then the slot, because a slot that is older
than its publication decodes changes for which there is none. Publication and record are one transaction;
the record says "slot made by us" before the slot is made, so ``destroy`` (:mod:`pgsluice.source.uninstall`)
never leaves one behind.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql
from psycopg.errors import InvalidSchemaName, LockNotAvailable, UndefinedTable

from pgsluice.errors import (
    ConfigError,
    MissingRightError,
    SchemaBusyError,
    SlotInvalidatedError,
    UnsafePublicationError,
)
from pgsluice.schema.migrate import installed_version, migrate, refuse_newer
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.event_triggers import install_triggers, note_where
from pgsluice.source.identity import SourceTable, read_tables
from pgsluice.source.names import DEFAULT_PIPELINE
from pgsluice.source.preflight import check_connection, raise_first_error
from pgsluice.source.publication import (
    Publication,
    create_publication,
    read_publication,
    refresh_publication,
    require_publication,
)
from pgsluice.source.records import (
    IdentityChange,
    Names,
    PipelineRecord,
    read_record,
    resolve_names,
    update_record,
    write_identity_changes,
    write_record,
    write_slot_lsn,
)
from pgsluice.source.selection import Plan, Selection, choose, require_tables
from pgsluice.source.slot import create_slot, read_slot, require_usable
from pgsluice.source.uninstall import destroy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.source.finding import Finding

__all__ = ["InitOptions", "InitReport", "destroy", "init", "refresh"]

LOCK_TIMEOUT = "10s"
_BRIEFLY: Final = "500ms"  # less than deadlock_timeout
"""How long init waits for a table's lock; while it waits for FULL, others queue behind it."""


@dataclass(frozen=True, slots=True)
class InitOptions:
    """What was asked of ``init``; None means: as it was, or the default."""

    name: str = DEFAULT_PIPELINE
    slot: str | None = None
    publication: str | None = None
    selection: Selection | None = None
    failover: bool = False
    upgrade: bool = False
    event_triggers: bool = True


@dataclass(frozen=True, slots=True)
class InitReport:
    """What ``init`` found and did."""

    name: str
    slot: str
    publication: str
    tables: tuple[str, ...]  # whose rows are in the stream
    left_out: tuple[tuple[str, str], ...]  # asked for and not published, with the reason
    actions: tuple[str, ...]  # what was changed on the source, in order; empty when nothing was
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def changed(self) -> bool:
        """Whether anything was changed."""
        return bool(self.actions)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was changed to bring a publication up to date."""

    joined: tuple[str, ...] = ()  # tables whose rows are in the stream from now on
    actions: tuple[str, ...] = ()  # all that was changed, in words
    foreign: tuple[str, ...] = ()  # tables that only another role may put on the list
    left_out: tuple[tuple[str, str], ...] = ()  # tables that can't be on it, with the reason


def init(url: str, options: InitOptions | None = None, *, dry_run: bool = False) -> InitReport:
    """
    Prepare the source for a pipeline; running it again changes nothing.

    With ``dry_run`` everything but the slot is done for real, then rolled back, so the report is true.
    """
    options = options or InitOptions()
    with source_errors(url, "prepare the database"), connect(url) as conn:
        refuse_newer(installed_version(conn) or 0)
        names = resolve_names(conn, options.name, options.slot, options.publication)
        findings = check_connection(
            conn, url, options.selection or Selection(), names, failover=options.failover
        )
        raise_first_error(findings)
        conn.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
        with conn.transaction(force_rollback=True) if dry_run else nullcontext():
            return _prepare(conn, options, names, tuple(findings), dry_run=dry_run)


def refresh(url: str, name: str = DEFAULT_PIPELINE) -> Refreshed:
    """
    Bring the list of a publication that we made up to date.

    Raises:
        SchemaBusyError: others hold locks on its tables, or have changed them since we looked. It is for us
            to give way, before the server sees a deadlock and breaks off what they do.
    """
    with source_errors(url, "refresh the publication"), connect(url) as conn, conn.transaction():
        conn.execute(f"SET LOCAL lock_timeout = '{_BRIEFLY}'")
        try:
            return _refresh(conn, name)
        except LockNotAvailable as exc:
            raise SchemaBusyError(
                "the publication can't be changed now: others hold locks on tables"
            ) from exc
        except (UndefinedTable, InvalidSchemaName, UnsafePublicationError) as exc:
            raise SchemaBusyError(
                f"the publication can't be changed now: others change tables ({exc})"
            ) from exc


def _refresh(conn: Connection, name: str) -> Refreshed:
    _serialize(conn)
    record = read_record(conn, name)
    if record is None or not record.publication_made or record.selection.scope != "list":
        return Refreshed()
    return _bring_up_to_date(conn, record, record.selection, foreign_too=False)[1]


def _prepare(
    conn: Connection, options: InitOptions, names: Names, findings: tuple[Finding, ...], *, dry_run: bool
) -> InitReport:
    migrated = migrate(conn, upgrade=options.upgrade)
    triggers, unseen = _install_triggers(conn) if options.event_triggers else ((), ())
    with conn.transaction():
        _serialize(conn)
        plan, done = _publish(conn, options, names)
    slot_done = _make_slot(conn, names.slot, failover=options.failover, dry_run=dry_run)
    return InitReport(
        options.name,
        names.slot,
        names.publication,
        _published(conn, names.publication),
        _left_out(plan) if plan else (),
        (*(f"apply migration {m.version} ({m.name})" for m in migrated), *triggers, *done, *slot_done),
        (*(plan.warnings if plan else ()), *unseen),
        findings,
    )


def _install_triggers(conn: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
    with conn.transaction():
        _serialize(conn)
        done, unseen = install_triggers(conn)
    with conn.transaction():
        _serialize(conn)
        note_where(conn)
    return done, unseen


def _serialize(conn: Connection) -> None:
    """One init at a time in a database."""
    conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('pgsluice init', 0))")


def _publish(conn: Connection, options: InitOptions, names: Names) -> tuple[Plan | None, tuple[str, ...]]:
    record = read_record(conn, options.name)
    if record is not None:
        return _again(conn, record, options)
    found = read_publication(conn, names.publication)
    if found is None:
        return _publish_new(conn, options, names)
    _record(conn, options, names, found, made=False)
    return None, (f"use publication {found.name} as it is",)


def _publish_new(conn: Connection, options: InitOptions, names: Names) -> tuple[Plan, tuple[str, ...]]:
    selection = options.selection or Selection()
    plan = choose(read_tables(conn), selection, conn.info.server_version)
    require_tables(plan, selection)
    changes = _set_full(conn, plan.to_full)
    made = create_publication(conn, names.publication, selection, plan.entries)
    _record(conn, options, names, made, made=True)
    write_identity_changes(conn, options.name, changes)
    _prove_safe(conn, plan)
    return plan, (*_full_words(plan), f"make publication {made.name}")


def _record(conn: Connection, options: InitOptions, names: Names, found: Publication, *, made: bool) -> None:
    state = read_slot(conn, names.slot)
    if state.exists:
        require_usable(state, conn.info.dbname)
    taken = conn.execute("SELECT name FROM pgsluice.pipeline WHERE slot = %s", (names.slot,)).fetchone()
    if taken:
        raise ConfigError(
            f"slot {names.slot} belongs to pipeline {taken[0]}",
            remedy="A slot has one reader: give another --slot",
        )
    write_record(
        conn,
        PipelineRecord(
            options.name,
            names.slot,
            not state.exists,
            found.name,
            found.oid,
            made,
            found.definition(),
            options.selection or Selection(),
        ),
    )


def _again(
    conn: Connection, record: PipelineRecord, options: InitOptions
) -> tuple[Plan | None, tuple[str, ...]]:
    """Init has run before: keep our list up to date, take somebody else's publication as it is now."""
    selection = options.selection or record.selection
    if selection.scope != record.selection.scope and record.publication_made:
        raise ConfigError(
            f"pipeline {record.name} was made with another kind of publication ({record.selection.scope})",
            remedy="Run pgsluice destroy first, or give another --name",
        )
    if record.publication_made and selection.scope == "list":
        plan, refreshed = _bring_up_to_date(conn, record, selection)
        return plan, refreshed.actions
    now = require_publication(conn, record.publication, record.publication_oid)
    if now.definition() == record.definition:
        return None, ()
    update_record(conn, record, now, record.selection)
    return None, (f"record the present definition of publication {now.name}",)


def _bring_up_to_date(
    conn: Connection, record: PipelineRecord, selection: Selection, *, foreign_too: bool = True
) -> tuple[Plan, Refreshed]:
    now = require_publication(conn, record.publication, record.publication_oid)
    tables = read_tables(conn)
    foreign = set() if foreign_too else _foreign(conn, tables, now)
    plan = choose([table for table in tables if table not in foreign], selection, conn.info.server_version)
    kept_out = choose(tables, selection, conn.info.server_version).entries if foreign else ()
    require_tables(plan, selection)
    changes = _set_full(conn, plan.to_full)
    write_identity_changes(conn, record.name, changes)
    added, dropped = refresh_publication(conn, now, plan.entries)
    _prove_safe(conn, plan)
    after = require_publication(conn, record.publication)
    if after.definition() != record.definition or selection != record.selection:
        update_record(conn, record, after, selection)
    words = [f"add {name} to publication {now.name}" for name in added]
    words += [f"take {name} off publication {now.name}" for name in dropped]
    if not words and after.definition() != record.definition:
        words.append(f"record the present definition of publication {now.name}")
    names = tuple(table.qualified for table in kept_out if table in foreign)
    return plan, Refreshed(tuple(added), (*_full_words(plan), *words), names, _left_out(plan))


def _left_out(plan: Plan) -> tuple[tuple[str, str], ...]:
    return tuple((left.table.qualified, left.reason) for left in plan.left_out)


def _foreign(conn: Connection, tables: Sequence[SourceTable], present: Publication) -> set[SourceTable]:
    """Tables that are not on the list, and that this role may not put there."""
    rows = conn.execute("SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, 'USAGE')")
    own, listed = {row[0] for row in rows}, {table.relid for table in present.tables}
    return {table for table in tables if table.owner not in own and table.relid not in listed}


def _set_full(conn: Connection, tables: Sequence[SourceTable]) -> list[IdentityChange]:
    for table in tables:
        statement = sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY FULL").format(
            sql.Identifier(table.schema, table.name)
        )
        try:
            conn.execute(statement)
        except psycopg.errors.InsufficientPrivilege as exc:
            text = statement.as_string(conn)
            raise MissingRightError(
                f"the role {conn.info.user} may not change {table.qualified}: {exc.diag.message_primary}",
                remedy=f"Run as the table's owner: {text}; or use --keyless leave_out",
            ) from exc
    return [IdentityChange(table.relid, table.identity) for table in tables]


def _full_words(plan: Plan) -> list[str]:
    return [f"set REPLICA IDENTITY FULL on {table.qualified}" for table in plan.to_full]


def _prove_safe(conn: Connection, plan: Plan) -> None:
    """
    Look again before committing: the publication holds locks now that keep identities as they are.

    Between the first look and the lock somebody may have dropped a key; publishing would make UPDATE fail.
    """
    published = {table.relid for table in plan.published}
    broken = [t.qualified for t in read_tables(conn) if t.relid in published and not t.usable]
    if broken:
        raise UnsafePublicationError(
            f"the replica identity of {', '.join(broken)} changed while the publication was being made",
            remedy="Nothing was changed; run pgsluice init again",
            tables=broken,
        )


def _make_slot(conn: Connection, name: str, *, failover: bool, dry_run: bool) -> tuple[str, ...]:
    if not dry_run:
        # Kept until this connection ends: another init waits here and then finds the slot. A dry run has an
        # open transaction, for which the making of a slot would wait, so it must not wait for that in turn.
        conn.execute("SELECT pg_advisory_lock(hashtextextended('pgsluice slot', 0))")
    state = read_slot(conn, name)
    if not state.exists:
        if not dry_run:
            made = create_slot(conn, name, failover=failover)
            if made.confirmed_flush_lsn is not None:
                write_slot_lsn(conn, name, made.confirmed_flush_lsn)
        return (f"make slot {name}",)
    require_usable(state, conn.info.dbname)
    if state.lost:
        raise SlotInvalidatedError(
            f"the server has invalidated slot {name} ({state.invalidation_reason or 'WAL was removed'})",
            remedy="Run pgsluice destroy, then init, and copy the tables again",
            slot=name,
        )
    return ()


def _published(conn: psycopg.Connection[Any], publication: str) -> tuple[str, ...]:
    rows = conn.execute(
        "SELECT schemaname || '.' || tablename FROM pg_catalog.pg_publication_tables"
        " WHERE pubname = %s AND schemaname <> 'pgsluice' ORDER BY 1",
        (publication,),
    )
    return tuple(row[0] for row in rows)
