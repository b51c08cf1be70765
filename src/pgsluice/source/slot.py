"""The replication slot: made, looked at, dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg.errors import (
    ConfigurationLimitExceeded,
    ObjectInUse,
    ObjectNotInPrerequisiteState,
    QueryCanceled,
)

from pgsluice.changelog.position import Lsn
from pgsluice.errors import (
    RunActiveError,
    SlotUnusableError,
    SourceError,
    UnsupportedServerError,
    WalLevelError,
)

if TYPE_CHECKING:
    import psycopg

PLUGIN: Final = "pgoutput"
FAILOVER_FROM: Final = 170000
CREATE_TIMEOUT: Final = 60  # seconds; creation waits for every transaction that is open at that moment


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot as the server has it; fields that its version lacks are None."""

    name: str
    exists: bool
    plugin: str | None = None  # None: a physical slot
    database: str | None = None
    temporary: bool = False
    active_pid: int | None = None
    restart_lsn: Lsn | None = None
    confirmed_flush_lsn: Lsn | None = None
    wal_status: str | None = None  # reserved, extended, unreserved, lost
    invalidation_reason: str | None = None  # from 17 on
    failover: bool = False
    safe_wal_size: int | None = None  # bytes until the slot may be lost; None without a limit
    lag_bytes: int | None = None  # written by the server and not confirmed by us
    held_bytes: int | None = None  # WAL that the server keeps for this slot

    @property
    def lost(self) -> bool:
        """Whether the server has given the slot's WAL up."""
        return self.wal_status == "lost" or self.invalidation_reason is not None


def read_slot(conn: psycopg.Connection[Any], name: str) -> SlotState:
    """The state of a slot, also when there is none of that name."""
    row = conn.execute(_STATE, (name,)).fetchone()
    if row is None:
        return SlotState(name, exists=False)
    facts, lag, held = row
    return SlotState(
        name,
        exists=True,
        plugin=facts["plugin"],
        database=facts["database"],
        temporary=facts["temporary"],
        active_pid=facts["active_pid"],
        restart_lsn=_lsn(facts["restart_lsn"]),
        confirmed_flush_lsn=_lsn(facts["confirmed_flush_lsn"]),
        wal_status=facts["wal_status"],
        invalidation_reason=facts.get("invalidation_reason"),
        failover=bool(facts.get("failover")),
        safe_wal_size=facts["safe_wal_size"],
        lag_bytes=None if lag is None else int(lag),
        held_bytes=None if held is None else int(held),
    )


def require_usable(state: SlotState, database: str) -> None:
    """Raise when an existing slot is not one that pgsluice can read in this database."""
    problem = ""
    if state.plugin is None:
        problem = "is a physical slot"
    elif state.plugin != PLUGIN:
        problem = f"uses the plugin {state.plugin}, not {PLUGIN}"
    elif state.database != database:
        problem = f"belongs to database {state.database}, not {database}"
    elif state.temporary:
        problem = "is temporary"
    if problem:
        raise SlotUnusableError(
            f"slot {state.name} {problem}",
            remedy="Choose another name with --slot, or drop it: "
            f"SELECT pg_drop_replication_slot('{state.name}');",
            slot=state.name,
        )


def create_slot(conn: psycopg.Connection[Any], name: str, *, failover: bool = False) -> SlotState:
    """Make a slot for pgoutput; the connection must be in autocommit."""
    if failover and conn.info.server_version < FAILOVER_FROM:
        raise UnsupportedServerError(
            f"failover slots need PostgreSQL {FAILOVER_FROM // 10000} or newer", remedy="Leave --failover out"
        )
    arguments = {"name": name, "failover": failover}
    call = "SELECT pg_catalog.pg_create_logical_replication_slot(slot_name => %(name)s, plugin => 'pgoutput'"
    call += ", failover => %(failover)s)" if failover else ")"
    try:
        with conn.transaction():
            conn.execute(f"SET LOCAL statement_timeout = '{CREATE_TIMEOUT}s'")
            conn.execute(call, arguments)
    except ConfigurationLimitExceeded as exc:
        raise SourceError(
            "the server has no free replication slot",
            remedy="Raise max_replication_slots (needs a restart), or drop an unused slot: "
            "SELECT slot_name, active FROM pg_replication_slots;",
        ) from exc
    except ObjectNotInPrerequisiteState as exc:
        raise WalLevelError(
            f"slot {name} can't be made: {exc.diag.message_primary}",
            remedy="Run: ALTER SYSTEM SET wal_level = logical; then restart the server",
        ) from exc
    except QueryCanceled as exc:
        raise SourceError(
            f"slot {name} could not be made in {CREATE_TIMEOUT} s: open transactions have not ended",
            remedy="End them and try again: " + _OPEN_TRANSACTIONS,
        ) from exc
    return read_slot(conn, name)


def drop_slot(conn: psycopg.Connection[Any], name: str) -> bool:
    """Drop a slot; False when there was none, an error while it is in use."""
    state = read_slot(conn, name)
    if not state.exists:
        return False
    try:
        conn.execute("SELECT pg_catalog.pg_drop_replication_slot(%s)", (name,))
    except ObjectInUse as exc:
        raise in_use(state) from exc
    return True


def in_use(state: SlotState) -> RunActiveError:
    """The error for a slot that somebody reads."""
    by = f" by process {state.active_pid} of the server" if state.active_pid else ""
    return RunActiveError(
        f"slot {state.name} is in use{by}",
        remedy="Stop the pipeline first (Ctrl-C in pgsluice run), then try again",
        slot=state.name,
        pid=state.active_pid,
    )


_STATE = """
    SELECT to_jsonb(s), pg_catalog.pg_wal_lsn_diff(now_at.lsn, s.confirmed_flush_lsn),
           pg_catalog.pg_wal_lsn_diff(now_at.lsn, s.restart_lsn)
      FROM pg_catalog.pg_replication_slots s,
           (SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_receive_lsn()
                        ELSE pg_catalog.pg_current_wal_lsn() END AS lsn) now_at
     WHERE s.slot_name = %s"""

_OPEN_TRANSACTIONS = (
    "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL; "
    "SELECT gid, prepared FROM pg_prepared_xacts;"
)


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn.parse(text)
