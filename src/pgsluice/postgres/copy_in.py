"""
Rows on their way into COPY … FROM STDIN.

Without encryption they are sent beside libpq, which would copy each piece into a buffer of its own, and move
what is left of it whenever the server takes less than all. With TLS or GSS they go through it.
"""

from __future__ import annotations

import select
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import pq

from pgsluice.postgres.session import is_encrypted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgsluice.postgres.session import Connection

_FAILED: Final = b"the rows could not be read"


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
        copied = CopyIn(lambda piece: _send(conn, line, piece))
        try:
            yield copied
        except BaseException:
            if not conn.closed:
                _end(conn, _FAILED)
            raise
        copied.rows = _end(conn, None)


class CopyIn:
    """Takes rows in one of COPY's formats."""

    def __init__(self, write: Callable[[memoryview], None]) -> None:
        self.write = write
        self.rows = 0  # how many were written; known after the end


def _send(conn: Connection, line: socket.socket, piece: memoryview) -> None:
    """Send a piece as one message; libpq has set the socket not to block."""
    parts: list[Any] = [memoryview(b"d" + struct.pack(">I", len(piece) + 4)), piece]
    try:
        while parts:
            try:
                sent = line.sendmsg(parts)
            except BlockingIOError:
                select.select([], [line], [])
                continue
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][sent:]
    except OSError as exc:
        conn.close()  # in the middle of a message nothing else can be said
        raise psycopg.OperationalError(f"the connection broke while copying: {exc}") from exc


def _end(conn: Connection, failure: bytes | None) -> int:
    """Tell the server that there is no more, or why; gives how many rows it took."""
    pgconn = conn.pgconn
    while pgconn.put_copy_end(failure) == 0 or pgconn.flush() == 1:
        select.select([], [pgconn.socket], [])
    rows = 0
    problem: psycopg.Error | None = None
    while (result := pgconn.get_result()) is not None:
        try:
            rows = _result(conn, result)
        except psycopg.Error as exc:
            problem = exc
    if problem is not None and failure is None:
        raise problem
    return rows


def _result(conn: Connection, result: pq.abc.PGresult) -> int:
    if result.status not in (pq.ExecStatus.COPY_IN, pq.ExecStatus.COMMAND_OK):
        if conn.pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(
                f"the connection broke while copying: {result.get_error_message()}"
            )
        raise psycopg.errors.error_from_result(result, encoding=conn.info.encoding)
    return result.command_tuples or 0
