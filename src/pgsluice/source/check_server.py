"""Checks of the server: its settings, and what else uses its slots, senders and WAL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgsluice.source.finding import Finding, listed
from pgsluice.source.slot import FAILOVER_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import psycopg

_SETTINGS = (
    "wal_level", "max_replication_slots", "max_wal_senders", "max_slot_wal_keep_size",
    "synchronous_standby_names", "idle_replication_slot_timeout", "synchronized_standby_slots",
)  # fmt: skip
_RESTART = "then restart the server"
_RELOAD = "SELECT pg_reload_conf();"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the checks of this module go by."""

    version: int
    standby: bool
    settings: Mapping[str, str]  # those that this version has
    slots_used: int
    senders_used: int
    slot_exists: bool
    failover_wanted: bool
    prepared: tuple[str, ...]  # transactions prepared and not yet ended


def check_server(conn: psycopg.Connection[Any], *, slot: str | None, failover: bool) -> Iterator[Finding]:
    """Findings about the server as a whole."""
    facts = _read(conn, slot, failover)
    for check in _CHECKS:
        finding = check(facts)
        if finding is not None:
            yield finding


def _read(conn: psycopg.Connection[Any], slot: str | None, failover: bool) -> ServerFacts:
    settings = dict(
        conn.execute(
            "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY(%s)", [list(_SETTINGS)]
        )
    )
    row = conn.execute(_COUNTS, {"slot": slot}).fetchone() or (False, 0, 0, False)
    prepared = tuple(
        r[0] for r in conn.execute("SELECT gid FROM pg_catalog.pg_prepared_xacts ORDER BY prepared")
    )
    return ServerFacts(conn.info.server_version, row[0], settings, row[1], row[2], row[3], failover, prepared)


_COUNTS = """
    SELECT pg_catalog.pg_is_in_recovery(),
           (SELECT count(*) FROM pg_catalog.pg_replication_slots),
           (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'walsender'),
           EXISTS (SELECT FROM pg_catalog.pg_replication_slots WHERE slot_name = %(slot)s)"""


def _standby(facts: ServerFacts) -> Finding | None:
    if not facts.standby:
        return None
    return Finding(
        "standby",
        "error",
        "the server is a standby, in which nothing can be made",
        "Use the primary's address",
    )


def _wal_level(facts: ServerFacts) -> Finding | None:
    level = facts.settings["wal_level"]
    if level == "logical":
        return None
    remedy = f"ALTER SYSTEM SET wal_level = logical; {_RESTART}"
    return Finding(
        "wal-level", "error", f"wal_level is {level}, needed is logical", remedy, {"wal_level": level}
    )


def _slots(facts: ServerFacts) -> Finding | None:
    most = int(facts.settings["max_replication_slots"])
    if facts.slot_exists or facts.slots_used < most:
        return None
    remedy = f"ALTER SYSTEM SET max_replication_slots = {most + 5}; {_RESTART}; or drop an unused slot"
    return Finding(
        "slots", "error", f"all {most} replication slots are in use", remedy, {"used": facts.slots_used}
    )


def _senders(facts: ServerFacts) -> Finding | None:
    most = int(facts.settings["max_wal_senders"])
    if facts.senders_used < most:
        return None
    remedy = f"ALTER SYSTEM SET max_wal_senders = {most + 5}; {_RESTART}"
    return Finding(
        "senders", "error", f"all {most} WAL senders are in use", remedy, {"used": facts.senders_used}
    )


def _wal_keep(facts: ServerFacts) -> Finding | None:
    megabytes = int(facts.settings["max_slot_wal_keep_size"])
    if megabytes < 0:
        return Finding(
            "wal-keep",
            "info",
            "max_slot_wal_keep_size is -1: for a stopped pipeline WAL is kept until the disk is full",
            f"ALTER SYSTEM SET max_slot_wal_keep_size = '100GB'; {_RELOAD} or watch pgsluice status",
        )
    return Finding(
        "wal-keep",
        "warning",
        f"max_slot_wal_keep_size is {megabytes} MB: a pipeline that is stopped for more WAL than that "
        "loses its slot",
        f"ALTER SYSTEM SET max_slot_wal_keep_size = '…'; {_RELOAD} with as much as your longest stop writes",
        {"megabytes": megabytes},
    )


def _idle_timeout(facts: ServerFacts) -> Finding | None:
    seconds = int(facts.settings.get("idle_replication_slot_timeout", "0"))
    if seconds == 0:
        return None
    return Finding(
        "idle-slot-timeout",
        "warning",
        f"idle_replication_slot_timeout is {seconds} s: a pipeline that is stopped for longer loses its slot",
        f"ALTER SYSTEM SET idle_replication_slot_timeout = 0; {_RELOAD}",
        {"seconds": seconds},
    )


def _synchronous(facts: ServerFacts) -> Finding | None:
    names = facts.settings["synchronous_standby_names"]
    if "*" not in names:
        return None
    return Finding(
        "synchronous-standby",
        "warning",
        f"synchronous_standby_names is {names!r}: commits may wait for pgsluice as for a standby",
        "ALTER SYSTEM SET synchronous_standby_names = '…' with the names of the standbys",
    )


def _prepared(facts: ServerFacts) -> Finding | None:
    if not facts.prepared or facts.slot_exists:
        return None
    return Finding(
        "prepared-transactions",
        "warning",
        f"{len(facts.prepared)} prepared transactions are open ({listed(facts.prepared)}): "
        "making the slot waits until they end",
        "End them with COMMIT PREPARED or ROLLBACK PREPARED: SELECT gid, prepared FROM pg_prepared_xacts;",
        {"transactions": list(facts.prepared)},
    )


def _failover(facts: ServerFacts) -> Finding | None:
    if not facts.failover_wanted:
        return None
    if facts.version < FAILOVER_FROM:
        return Finding(
            "failover", "error", "failover slots need PostgreSQL 17 or newer", "Leave --failover out"
        )
    if facts.settings.get("synchronized_standby_slots"):
        return None
    return Finding(
        "failover",
        "warning",
        "synchronized_standby_slots is empty: after a failover the standby may be behind what was replicated",
        "ALTER SYSTEM SET synchronized_standby_slots = '<slot of the standby>'; "
        + _RELOAD
        + " and on the standby: sync_replication_slots = on, hot_standby_feedback = on",
    )


_CHECKS: tuple[Callable[[ServerFacts], Finding | None], ...] = (
    _standby, _wal_level, _slots, _senders, _wal_keep, _idle_timeout, _synchronous, _prepared, _failover,
)  # fmt: skip
