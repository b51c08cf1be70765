"""
Rows on their way into COPY … FROM STDIN.

Without encryption they are sent beside libpq, which would copy each piece into a buffer of its own, and move
what is left of it whenever the server takes less than all. With TLS or GSS they go through it.
"""

from __future__ import annotations

import select
import socket
import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import pq

from pgsluice.postgres.session import is_encrypted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgsluice.postgres.session import Connection

_FAILED: Final = b"the rows could not be read"
_MESSAGE_BYTES: Final = 16 << 20  # of one message: the server takes less than 1 GiB


@contextmanager
def copy_in(conn: Connection, statement: bytes) -> Iterator[CopyIn]:
    """One COPY, from its statement to its end; when the block fails, so does the COPY."""
    if is_encrypted(conn):
        with conn.cursor() as cursor:
            with cursor.copy(statement) as copy:
                copied = CopyIn(copy.write)
                yield copied
            copied.rows = cursor.rowcount
        return
    _result(conn, conn.pgconn.exec_(statement))
    with socket.socket(fileno=socket.dup(conn.pgconn.socket)) as line:
        copied = CopyIn(lambda piece: _write(conn, line, piece))
        try:
            yield copied
        except BaseException:
            with suppress(psycopg.Error):  # what went wrong before is the reason
                _end(conn, _FAILED)
            raise
        copied.rows = _end(conn, None)


class CopyIn:
    """Takes rows in one of COPY's formats."""

    def __init__(self, write: Callable[[memoryview], None]) -> None:
        self.write = write
        self.rows = 0  # how many were written; known after the end


def _write(conn: Connection, line: socket.socket, piece: memoryview) -> None:
    for start in range(0, len(piece), _MESSAGE_BYTES):
        part = piece[start : start + _MESSAGE_BYTES]
        try:
            _send(conn, line, [memoryview(b"d" + struct.pack(">I", len(part) + 4)), part])
        except BaseException as exc:
            conn.close()  # in the middle of a message nothing else can be said
            if isinstance(exc, OSError):
                raise psycopg.OperationalError(f"the connection broke while copying: {exc}") from exc
            raise


def _send(conn: Connection, line: socket.socket, parts: list[memoryview]) -> None:
    """Send all; libpq has set the socket not to block."""
    while parts:
        try:
            sent = line.sendmsg(parts)
        except BlockingIOError:
            _wait(conn, writing=True)
            continue
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][sent:]


def _end(conn: Connection, failure: bytes | None) -> int:
    """Tell the server that there is no more, or why; gives how many rows it took."""
    pgconn = conn.pgconn
    while pgconn.put_copy_end(failure) == 0:  # once it is taken it must not be said again
        _wait(conn, writing=True)
    while pgconn.flush() == 1:
        _wait(conn, writing=True)
    rows = 0
    problem: psycopg.Error | None = None
    while (result := _next_result(conn)) is not None:
        try:
            rows = _result(conn, result)
        except psycopg.Error as exc:
            problem = exc
    if problem is not None and failure is None:
        raise problem
    return rows


def _next_result(conn: Connection) -> pq.abc.PGresult | None:
    """Without waiting in libpq: psycopg would hold the interpreter's lock meanwhile."""
    while conn.pgconn.is_busy():
        _wait(conn, writing=False)
    return conn.pgconn.get_result()


def _wait(conn: Connection, *, writing: bool) -> None:
    """
    Until the socket can be written, if wanted, or has something for us, which is taken.

    That may be notices: a server whose own words nobody takes would not take ours.
    """
    line = conn.pgconn.socket
    readable, _, _ = select.select([line], [line] if writing else [], [])
    if readable:
        conn.pgconn.consume_input()


def _result(conn: Connection, result: pq.abc.PGresult) -> int:
    if result.status not in (pq.ExecStatus.COPY_IN, pq.ExecStatus.COMMAND_OK):
        if conn.pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(
                f"the connection broke while copying: {result.get_error_message()}"
            )
        raise psycopg.errors.error_from_result(result, encoding=conn.info.encoding)
    return result.command_tuples or 0
