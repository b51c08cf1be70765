"""
The bytes of a range: COPY … TO STDOUT inside the point's snapshot.

Without encryption the socket is read in bulk beside libpq, as the listener does: libpq hands out a row at a
time, which would cost more than all the rest. With TLS or GSS libpq's rows are gathered.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import sys
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import psycopg
from psycopg import pq, sql

from pgsluice.errors import (
    MissingRightError,
    SourceError,
    SourceUnreachableError,
    TableRewrittenError,
)
from pgsluice.postgres.session import error_fields, is_encrypted, lift_limits
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.snapshot import kernel
from pgsluice.source.snapshot.point import enter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection
    from pgsluice.source.snapshot.kernel import Bytes
    from pgsluice.source.snapshot.tables import Heap

_PIECE_BYTES: Final = 4 << 20  # of lines at a time; one larger row is a piece of its own
_LOW_WATER: Final = 256 << 10  # bytes to wait for: few, large reads
_LOW_WATER_WAIT: Final = 0.02
_SILENCE_SECONDS: Final = 600.0  # a row filter may skip much; longer than this the connection is dead
_LOCK_TIMEOUT: Final = "30s"
_UNDEFINED_COLUMN: Final = "42703"
_INSUFFICIENT_PRIVILEGE: Final = "42501"


def copy_out(part: Copyable, *, binary: bool = False) -> Iterator[Bytes]:
    """Whole lines of COPY's text, or rows of its binary format, a few MiB at a time."""
    with (
        source_errors(part.url, f"copy {part.heap.schema}.{part.heap.name}"),
        connect(part.url, application_name="pgsluice copy") as conn,
    ):
        lift_limits(conn)
        conn.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        enter(conn, part.snapshot)
        _lock(conn, part)
        form = sql.SQL(" (FORMAT binary)" if binary else "")
        yield from lines_of(conn, sql.SQL("COPY ({}) TO STDOUT{}").format(part.statement, form))
        _require_same_heap(conn, part)


class Copyable(Protocol):
    """Rows of one heap."""

    @property
    def url(self) -> str:
        """Of the source."""
        ...

    @property
    def snapshot(self) -> str:
        """An exported one."""
        ...

    @property
    def heap(self) -> Heap:
        """Where they are."""
        ...

    @property
    def statement(self) -> sql.Composed:
        """The SELECT that COPY reads."""
        ...


def lines_of(conn: Connection, statement: sql.Composable) -> Iterator[Bytes]:
    """What a COPY … TO STDOUT sends: whole lines, a few MiB at a time."""
    by = _by_libpq if is_encrypted(conn) else _by_socket
    try:
        yield from by(conn, statement.as_string(conn).encode())
    except BaseException:
        conn.close()  # in the middle of an answer nothing else can be said, not even ROLLBACK
        raise


def _lock(conn: Connection, part: Copyable) -> None:
    """From here on nobody rewrites the heap; whether somebody has already is compared."""
    table = sql.Identifier(part.heap.schema, part.heap.name)
    try:
        conn.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(table))
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as exc:
        raise _changed(part) from exc
    _require_same_heap(conn, part)
    _require_same_names(conn, part)


def _require_same_names(conn: Connection, part: Copyable) -> None:
    """
    Raise when the names of the table or of its columns mean others now than in the snapshot.

    Rows are seen as they were then, but names are looked up in the catalog of now: two columns, or tables,
    that have swapped their names would be read in each other's place.
    """
    try:
        result = conn.execute(sql.SQL("{} LIMIT 0").format(part.statement)).pgresult
    except psycopg.errors.UndefinedColumn as exc:
        raise _changed(part) from exc
    assert result is not None
    then: dict[str, int] = dict(
        conn.execute(
            "SELECT attname, attnum::int4 FROM pg_catalog.pg_attribute WHERE attrelid = %s",
            (part.heap.relid,),
        ).fetchall()
    )
    for place in range(result.nfields):
        name = (result.fname(place) or b"").decode()
        of = result.ftable(place), result.ftablecol(place)
        if of[0] and of != (part.heap.relid, then.get(name)):  # else it is an expression
            raise _changed(part)


def _require_same_heap(conn: Connection, part: Copyable) -> None:
    """
    Raise when the table was rewritten since the snapshot.

    Its rows are then in another file, where this snapshot sees none of them.
    """
    row = conn.execute(
        "SELECT pg_catalog.pg_relation_filenode(%s::oid::regclass)", (part.heap.relid,)
    ).fetchone()
    if row is None or row[0] != part.heap.filenode:
        raise _changed(part)


def _changed(part: Copyable) -> TableRewrittenError:
    name = f"{part.heap.schema}.{part.heap.name}"
    return TableRewrittenError(f"{name} was rewritten while it was being copied", table=name)


def _by_libpq(conn: Connection, statement: bytes) -> Iterator[Bytes]:
    pgconn = conn.pgconn
    result = pgconn.exec_(statement)
    if result.status != pq.ExecStatus.COPY_OUT:
        raise SourceError(f"the server refused to copy: {result.get_error_message()}")
    parts: list[bytes] = []
    size = 0
    while True:
        count, data = pgconn.get_copy_data(0)
        if count <= 0:
            break
        parts.append(bytes(data))
        size += count
        if size >= _PIECE_BYTES:
            yield np.frombuffer(b"".join(parts), np.uint8)
            parts, size = [], 0
    if parts:
        yield np.frombuffer(b"".join(parts), np.uint8)
    while (ended := pgconn.get_result()) is not None:
        if ended.status == pq.ExecStatus.FATAL_ERROR:
            raise SourceError(f"the copy broke off: {ended.get_error_message()}")


def _by_socket(conn: Connection, statement: bytes) -> Iterator[Bytes]:
    with socket.socket(fileno=socket.dup(conn.pgconn.socket)) as line, _patient(line):
        reader = _Reader(line)
        line.setblocking(True)
        line.sendall(b"Q" + struct.pack(">I", len(statement) + 5) + statement + b"\0")
        line.setblocking(False)
        yield from reader.pieces()


@contextlib.contextmanager
def _patient(line: socket.socket) -> Iterator[None]:
    """Wait for large pieces inside the block; libpq, which goes on with the socket, does not."""
    can = sys.platform == "linux" and line.family != socket.AF_UNIX
    if can:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LOW_WATER)
    try:
        yield
    finally:
        if can:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


class _Reader:
    """The answer to one COPY."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._buffer: Bytes = np.empty(_PIECE_BYTES + (64 << 10), np.uint8)
        self._size = 0
        self._idle = 0.0
        self._done = False

    def pieces(self) -> Iterator[Bytes]:
        """The lines, until the server is ready for another statement."""
        while not self._done:
            self._receive()
            out = np.empty(self._size, np.uint8)
            consumed, written = kernel.take_lines(self._buffer, self._size, out)
            self._consume(consumed)
            self._take_others()
            if written:
                yield out[:written]

    def _receive(self) -> None:
        """Read until a piece is full, or until nothing more came for a moment."""
        while self._size < _PIECE_BYTES or not self._has_message():
            if self._size == len(self._buffer):
                self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
            if not self._read() and self._has_message():
                return

    def _read(self) -> int:
        select.select([self._line.fileno()], [], [], _LOW_WATER_WAIT)
        try:
            count = self._line.recv_into(self._buffer.data[self._size :])
        except BlockingIOError:
            self._idle += _LOW_WATER_WAIT
            if self._idle > _SILENCE_SECONDS:
                raise SourceUnreachableError("the copy stands still: connection given up") from None
            return 0
        except OSError as exc:
            raise SourceUnreachableError(f"the connection broke while copying: {exc}") from exc
        if count == 0:
            raise SourceUnreachableError("the server closed the connection while copying")
        self._idle = 0.0
        self._size += count
        return count

    def _has_message(self) -> bool:
        return self._size >= 5 and self._size >= 1 + self._length()

    def _length(self) -> int:
        return int.from_bytes(bytes(self._buffer[1:5]), "big")

    def _consume(self, count: int) -> None:
        rest = self._size - count
        if count and rest:
            self._buffer[:rest] = self._buffer[count : self._size].copy()
        self._size = rest

    def _take_others(self) -> None:
        """Messages that are not rows: the answer's beginning and end, notices, errors."""
        while self._has_message() and self._buffer[0] != ord("d"):
            kind, length = chr(self._buffer[0]), self._length()
            body = bytes(self._buffer[5 : 1 + length])
            self._consume(1 + length)
            if kind == "E":
                raise _copy_error(body)
            if kind == "Z":
                self._done = True
                return


def _copy_error(body: bytes) -> SourceError:
    fields = error_fields(body)
    state, text = fields.get("C", ""), fields.get("M", "no reason given")
    if state == _UNDEFINED_COLUMN:
        return TableRewrittenError(f"a table was changed while it was being copied: {text}")
    if state == _INSUFFICIENT_PRIVILEGE:
        return MissingRightError(
            f"the role of the source may not copy: {text}",
            remedy="Grant it SELECT; and where policies hide rows: ALTER ROLE <role> BYPASSRLS",
        )
    if state.startswith(("57P", "08")):
        return SourceUnreachableError(f"the server ended the copy: {text}")
    return SourceError(f"the server refused to copy: {text} (SQLSTATE {state})")
