"""The session that a batch is written over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg

from pgsluice.errors import TargetError, TargetUnavailableError
from pgsluice.postgres.address import safe_url
from pgsluice.postgres.refusals import refusal
from pgsluice.postgres.session import (
    OLDEST_VERSION,
    Connection,
    connection_parameters,
    lift_limits,
    open_session,
    pin,
)

if TYPE_CHECKING:
    from pgsluice.sinks.postgres.config import PostgresConfig

_WHOSE: Final = "target"


def open_target(config: PostgresConfig) -> Connection:
    """Connect, with the pinned settings and without the limits of other clients."""
    url = config.url.get_secret_value()
    given = connection_parameters(url, _WHOSE, application_name="pgsluice sink")
    return open_session(given, lambda exc: _refused(exc, url, given), lambda conn: _prepare(conn, config))


def address(config: PostgresConfig) -> str:
    """The target for messages."""
    return safe_url(config.url.get_secret_value(), _WHOSE)


def _refused(exc: psycopg.Error, url: str, given: dict[str, Any]) -> TargetError:
    found = refusal(exc, url, given, _WHOSE)
    kind = TargetUnavailableError if found.kind == "unreachable" else TargetError
    return kind(found.message, remedy=found.remedy)


def _prepare(conn: Connection, config: PostgresConfig) -> None:
    if conn.info.server_version < OLDEST_VERSION:
        raise TargetError(
            f"{address(config)} runs PostgreSQL {conn.info.server_version // 10000}",
            remedy=f"pgsluice needs {OLDEST_VERSION // 10000} or newer",
        )
    said = pin(conn)
    if said is not None:
        raise TargetUnavailableError(f"{address(config)} refused the session settings: {said}")
    lift_limits(conn)
    lock_timeout = f"{round(config.lock_timeout * 1000)}ms"
    conn.execute("SELECT pg_catalog.set_config('lock_timeout', %s, false)", (lock_timeout,))
    # A policy that would hide rows from us is an error then: a change must not miss the row that it is for.
    conn.execute("SET row_security = off")


def stand_aside(conn: Connection) -> bool:
    """
    Switch triggers and foreign keys of the target off for this session; False where that is not allowed.

    They did their work on the source: its result is in the stream.
    """
    try:
        conn.execute("SET session_replication_role = replica")
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True
