"""
What a server means that lets nobody in, and what to do about it.

A connection that was refused has no SQLSTATE, so this goes by the server's words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pgsluice.postgres.address import safe_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

Kind = Literal["pooler", "right", "refused", "unreachable"]
"""Not a server; a right is missing; never without a change; perhaps later."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a connection could not be opened."""

    kind: Kind
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a refused connection says, and what it means."""

    words: re.Pattern[str]
    kind: Kind
    message: str
    remedy: str


def _row(words: str, kind: Kind, message: str, remedy: str) -> _Known:
    return _Known(re.compile(words, re.IGNORECASE), kind, message, remedy)


# In order: the first that fits decides.
_REFUSALS = (
    _row(
        r"unsupported startup parameter|pgbouncer|pooler|no such database:|"
        r"replication connections? (is|are) not|server login has been failing|supavisor|odyssey",
        "pooler",
        "{where} is a connection pooler, which can't carry replication",
        "Use the address of the server itself: its own host or port, without the pooler",
    ),
    _row(
        r"start walsender|start WAL sender|replication role",
        "right",
        "the role {user} may not replicate from {where}",
        "Run as an administrator: ALTER ROLE {user} REPLICATION;",
    ),
    _row(
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "refused",
        "pg_hba.conf of the server lets this connection to {where} not in",
        "Add the line: host{tls} {dbname} {user} <address of this machine>/32 scram-sha-256; then: "
        "SELECT pg_reload_conf();",
    ),
    _row(
        r"password authentication failed|no password supplied|empty password|SASL|"
        r"authentication failed for user",
        "refused",
        "wrong or missing password for {where}",
        "Check the password in the URL, PGPASSWORD or .pgpass",
    ),
    _row(
        r'database "?.*"? does not exist',
        "refused",
        "there is no such database: {where}",
        "Check the last part of the URL, or create the database",
    ),
    _row(
        r'role "?.*"? (does not exist|is not permitted to log in)',
        "refused",
        "the role {user} does not exist or may not log in at {where}",
        "Check the user in the URL, or run: CREATE ROLE {user} LOGIN REPLICATION PASSWORD '…';",
    ),
    _row(
        r"max_wal_senders|standby connections",
        "unreachable",
        "{where} has no free WAL sender",
        "Raise max_wal_senders, or stop what uses them: SELECT * FROM pg_stat_replication;",
    ),
    _row(
        r"too many (clients|connections)|remaining connection slots",
        "unreachable",
        "{where} has no free connection",
        "Raise max_connections, or close connections",
    ),
    _row(
        r"starting up|shutting down|in recovery mode|not (yet )?accepting connections",
        "unreachable",
        "{where} is starting or stopping",
        "Wait until the server accepts connections",
    ),
    _row(
        r"closed the connection unexpectedly|connection has been closed|reset by peer|SSL SYSCALL|"
        r"unexpected eof",
        "unreachable",
        "{where} closed the connection while it was being opened",
        "See the server's log; a firewall or a proxy in between may be the cause",
    ),
    _row(
        r"certificate|SSL|TLS|sslmode|root\.crt",
        "refused",
        "TLS with {where} failed: {said}",
        "Check sslmode, sslrootcert, sslcert and sslkey, and that the host is the certificate's name",
    ),
    _row(
        r"definition of service|service file",
        "refused",
        "the service of this connection is not defined: {said}",
        "Check PGSERVICE, PGSERVICEFILE and ~/.pg_service.conf",
    ),
    _row(
        r"could not translate host|failed to resolve host|Name or service not known|nodename nor servname",
        "unreachable",
        "the host of {where} is unknown",
        "Check the host in the URL, and name resolution on this machine",
    ),
    _row(
        r"permission denied for database",
        "right",
        "the role {user} may not connect to {where}",
        "Run as an administrator: GRANT CONNECT ON DATABASE {dbname} TO {user};",
    ),
)


def refusal(exc: psycopg.Error, url: str, parameters: Mapping[str, Any], whose: str = "source") -> Refusal:
    """Why a connection could not be opened."""
    said = one_line(exc)
    where = safe_url(url, whose)
    for known in _REFUSALS:
        if known.words.search(said):
            facts = _facts(where, parameters, said)
            return Refusal(known.kind, known.message.format(**facts), known.remedy.format(**facts))
    # Words in another language: libpq still knows whether a password was asked for or given in vain.
    pgconn = exc.pgconn
    if pgconn is not None and pgconn.needs_password:
        return Refusal("refused", f"wrong or missing password for {where}: {said}")
    return Refusal(
        "unreachable",
        f"{where} can't be reached: {said}",
        "Check host and port, that the server runs, listen_addresses, and firewalls in between",
    )


def one_line(exc: psycopg.Error) -> str:
    """What was said last, without libpq's prefixes; several addresses may have been tried."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip() and not line.startswith("- ")]
    telling = [line for line in lines if "FATAL" in line or "failed:" in line] or lines or ["no reason given"]
    said = telling[-1] if "FATAL" in telling[-1] else telling[0]
    return re.sub(r"^.*(?:FATAL:|failed:|is bad:)\s*", "", said).strip()


def _facts(where: str, parameters: Mapping[str, Any], said: str) -> dict[str, str]:
    tls = "ssl" if parameters.get("sslmode") in ("require", "verify-ca", "verify-full") else ""
    return {
        "where": where,
        "user": str(parameters.get("user") or "<user>"),
        "dbname": str(parameters.get("dbname") or "<database>"),
        "tls": tls,
        "said": said,
    }
