"""
Everything that must agree before streaming begins: server, slot, publication and log.

START_REPLICATION never complains about a gap: it silently begins where the slot was confirmed. So the
gap is looked for here, at every connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from pgsluice.changelog.log import LogWriter
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.segment import LogMeta, read_meta, write_meta
from pgsluice.errors import (
    SlotAheadOfLogError,
    SlotBehindError,
    SlotInvalidatedError,
    SlotMissingError,
    SlotRecreatedError,
    SlotUnusableError,
    TimelineDivergedError,
    WrongSystemError,
)
from pgsluice.postgres.session import ANSWER_SECONDS, Connection, answering_within
from pgsluice.source import replication
from pgsluice.source.connect import SourceIdentity, connect, identify, source_errors, wal_position
from pgsluice.source.event_triggers import schema_publication
from pgsluice.source.records import require_pipeline
from pgsluice.source.slot import SlotState, read_slot, require_usable

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.source.listener import ListenerOptions
    from pgsluice.source.replication import ReplicationStream


def open_stream(options: ListenerOptions, writer: LogWriter | None) -> tuple[ReplicationStream, LogWriter]:
    """Connect, compare everything, open the log if it isn't yet, and start to stream at its end."""
    connection = connect(options.url, replication=True, application_name=f"pgsluice listener {options.slot}")
    connection.cursor_factory = psycopg.ClientCursor  # a walsender takes plain statements only
    try:
        with (
            source_errors(options.url, "read the state of the slot"),
            answering_within(connection, ANSWER_SECONDS),
        ):
            if options.pipeline is not None:
                require_pipeline(connection, options.pipeline)
            server = identify(connection)
            slot = _usable_slot(connection, options.slot)
            meta = _agree(connection, options, server, slot)
            wal_end = wal_position(connection)
        if writer is None and read_meta(options.log) is not None:
            writer = _open_log(options, meta)
        start = writer.end if writer is not None else Lsn.parse(meta.start_lsn)
        _check_gap(options, slot, start, wal_end)
        with source_errors(options.url, "read the publications"):
            publications = (*options.publications, *schema_publication(connection, start))
        stream = replication.start(
            connection, options.slot, publications, start, local_only=options.origin == "none"
        )
    except BaseException:
        connection.close()
        raise
    # A new log is made when the slot is ours: another reader may have moved it until then.
    return stream, writer or _open_log(options, meta)


def _open_log(options: ListenerOptions, meta: LogMeta) -> LogWriter:
    return LogWriter(options.log, meta, segment_bytes=options.bytes_per_segment)


def _usable_slot(connection: Connection, name: str) -> SlotState:
    """The slot, once it is one that we can read."""
    slot = read_slot(connection, name)
    if not slot.exists:
        raise SlotMissingError(
            f"replication slot {name} does not exist",
            remedy="What was written since is lost: pgsluice destroy, then init, and copy again",
            slot=name,
        )
    require_usable(slot, connection.info.dbname)
    if slot.lost or slot.confirmed_flush_lsn is None:
        raise SlotInvalidatedError(
            f"the server has invalidated slot {name} ({slot.invalidation_reason or 'WAL was removed'})",
            remedy="Run pgsluice destroy, then init, and copy again; raise max_slot_wal_keep_size",
            slot=name,
        )
    return slot


def _agree(
    connection: Connection, options: ListenerOptions, server: SourceIdentity, slot: SlotState
) -> LogMeta:
    """The log's description, for this very stream; a new one where there is no log."""
    meta = read_meta(options.log)
    if meta is None:
        return LogMeta(
            server.system_id,
            server.timeline,
            options.slot,
            ",".join(options.publications),
            str(slot.confirmed_flush_lsn),
        )
    require_log_of(server.system_id, options.slot, options.log, meta)
    if meta.timeline != server.timeline:
        _check_timeline(connection, options, meta, server.timeline)
        meta = meta.with_timeline(server.timeline)
        write_meta(options.log, meta)
    return meta


def require_log_of(system_id: str, slot: str, log: Path, meta: LogMeta) -> None:
    """Refuse a log that was filled from another server or another slot."""
    if meta.system_id != system_id:
        raise WrongSystemError(
            f"the log in {log} is of system and database {meta.system_id}, this is {system_id}",
            remedy="Point the URL at the old one; "
            "or make another pipeline, with its own --name or --state-dir",
        )
    if meta.slot != slot:
        raise SlotUnusableError(
            f"the log in {log} was filled from slot {meta.slot!r}, not {slot!r}",
            remedy="Use that slot; or make another pipeline, with its own --name or --state-dir",
        )


def _check_timeline(connection: Connection, options: ListenerOptions, meta: LogMeta, timeline: int) -> None:
    """After a promotion the log must end before the point where the new timeline left the old one."""
    end = LogReader(options.log).end
    switched = _switch_point(connection, meta.timeline, timeline)
    if switched is None or end > switched:
        raise TimelineDivergedError(
            f"the log ends at {end} on timeline {meta.timeline}, but the server is on timeline {timeline}, "
            f"which left it at {switched or 'an unknown point'}",
            remedy="The log has changes that this server never had: copy again with a new state directory",
        )


def _switch_point(connection: Connection, old: int, new: int) -> Lsn | None:
    result = connection.pgconn.exec_(f"TIMELINE_HISTORY {new}".encode())
    content = result.get_value(0, 1) if result.ntuples else None
    for line in (content or b"").decode().splitlines():
        parts = line.split("\t")
        if parts and parts[0].strip() == str(old):
            return Lsn.parse(parts[1])
    return None


def _check_gap(options: ListenerOptions, slot: SlotState, end: Lsn, wal_end: Lsn) -> None:
    confirmed = slot.confirmed_flush_lsn
    assert confirmed is not None
    if wal_end < end:
        raise SlotBehindError(
            f"the server's WAL ends at {wal_end}, before the log in {options.log}, which ends at {end}: "
            "the server was put back to an older state",
            remedy="The log has changes that this server never had: copy again with a new state directory",
            first=str(wal_end),
            last=str(end),
        )
    if confirmed <= end:
        return
    recreated = slot.restart_lsn is not None and slot.restart_lsn > end
    kind = SlotRecreatedError if recreated else SlotAheadOfLogError
    how = "was created again" if recreated else "was read by another program, or the log was put back"
    raise kind(
        f"slot {slot.name} {how}: it stands at {confirmed}, the log in {options.log} ends at {end}, "
        "and the changes between the two are lost",
        remedy="Copy the data again with a new state directory",
        first=str(end),
        last=str(confirmed),
    )
