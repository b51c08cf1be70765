"""
What every session of ours is opened with, so that a value has one text form wherever it is read or written.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import pq

from pgsluice.postgres.address import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pgsluice.errors import SluiceError

Connection = psycopg.Connection[tuple[Any, ...]]
"""A connection whose rows are tuples."""

OLDEST_VERSION: Final = 140000
ANSWER_SECONDS: Final = 30.0  # for the short questions that are asked while connecting
CONNECT_TIMEOUT: Final = 10  # seconds; libpq's own default is to wait for ever

PINNED_SETTINGS: Final[Mapping[str, str]] = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "search_path": "",  # regclass and friends print names by it
    "quote_all_identifiers": "off",
    "client_min_messages": "warning",  # that a publication is missing is only a warning of the server
}
"""What decides the text form of values, the same in snapshot, stream and catalog reads, and what is said."""

_LIMITS: Final = (
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
    "idle_session_timeout",
)

_PIN = "SELECT " + ", ".join(
    f"pg_catalog.set_config('{name}', '{value}', false)" for name, value in PINNED_SETTINGS.items()
)


def connection_parameters(
    url: str, whose: str = "source", *, application_name: str = "pgsluice", **parameters: Any
) -> dict[str, Any]:
    """
    What to give to libpq: the URL's parameters, under ours.

    Args:
        url: anything that libpq takes; empty means the PG* variables.
        whose: the server's part, for messages.
        parameters: further libpq parameters, which win over the URL's.
    """
    given = {**parse_url(url, whose), **parameters}
    given.setdefault("application_name", application_name)
    given["client_encoding"] = "UTF8"
    if "connect_timeout" not in given and "PGCONNECT_TIMEOUT" not in os.environ:
        given["connect_timeout"] = CONNECT_TIMEOUT
    if not ({"gssencmode", "service"} & {*given} or {"PGGSSENCMODE", "PGSERVICE"} & {*os.environ}):
        given["gssencmode"] = "disable"  # libpq would try it where there is a ticket: see is_encrypted
    return given


def open_session(
    given: Mapping[str, Any],
    refused: Callable[[psycopg.Error], SluiceError],
    prepare: Callable[[Connection], None],
    *,
    autocommit: bool = True,
) -> Connection:
    """
    Open a connection and prepare it; one that can't be prepared is closed.

    ``refused`` makes our error of a connection that can't be opened.
    """
    try:
        conn: Connection = psycopg.connect(autocommit=autocommit, **given)
    except psycopg.Error as exc:
        raise refused(exc) from exc
    try:
        with answering_within(conn, ANSWER_SECONDS):
            prepare(conn)
    except BaseException:
        conn.close()
        raise
    return conn


def pin(conn: psycopg.Connection[Any]) -> str | None:
    """
    Put the pinned settings in force; gives what the server said if it refused.

    By statement, not by the startup packet's options: these would replace the user's own (URL, PGOPTIONS,
    service file), and what is set last wins over the settings of role and database as well.
    """
    result = conn.pgconn.exec_(_PIN.encode())
    if result.status == pq.ExecStatus.TUPLES_OK:
        return None
    return " ".join(result.get_error_message().split())


def database_identity(conn: psycopg.Connection[Any]) -> tuple[str, str] | None:
    """What tells a database from every other one; None when the role may not ask."""
    try:
        row = conn.execute(
            "SELECT system_identifier::text, pg_catalog.current_database()::text "
            "FROM pg_catalog.pg_control_system()"
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None
    assert row is not None
    return str(row[0]), str(row[1])


def is_broken(conn: psycopg.Connection[Any]) -> bool:
    """Whether the connection itself is gone."""
    return conn.pgconn.status == pq.ConnStatus.BAD


def is_encrypted(conn: psycopg.Connection[Any]) -> bool:
    """
    Whether only libpq can read and write the socket.

    Psycopg does not tell whether GSS encryption came about, so it counts wherever it was possible.
    """
    if conn.pgconn.ssl_in_use:
        return True
    modes = [option.val for option in conn.pgconn.info if option.keyword == b"gssencmode"]
    return modes not in ([], [b"disable"])


def error_fields(body: bytes) -> dict[str, str]:
    """The fields of an error or notice of the protocol, by their letters: C the SQLSTATE, M the message."""
    parts = body.split(b"\0")
    return {chr(part[0]): part[1:].decode("utf-8", "replace") for part in parts if part}


def has_relation(conn: psycopg.Connection[Any], schema: str, name: str) -> bool:
    """Whether the database has a table, view, sequence or index of that name."""
    found = conn.execute(
        "SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        (schema, name),
    )
    return found.rowcount > 0


def lift_limits(conn: psycopg.Connection[Any]) -> None:
    """
    Switch off what role or database have set to end the sessions of applications: ours are long.

    And what would hide rows from us: a policy then is an error, and never a part of the rows.
    """
    conn.execute("SET row_security = off")
    conn.execute(
        "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = ANY (%s)",
        (list(_LIMITS),),
    )


@contextmanager
def answering_within(conn: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """
    Hang up when the block takes longer, so that a blocked call ends with an error.

    A connection whose other end is gone without a word answers nothing for ever, and libpq waits.
    """
    timer = threading.Timer(seconds, _hang_up, (conn,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(conn: psycopg.Connection[Any]) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=socket.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
