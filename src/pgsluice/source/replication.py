"""
The replication connection after START_REPLICATION: bytes in, status out.

Two ways to the same bytes. Without encryption the socket is taken over from libpq before
START_REPLICATION and read in bulk: almost no CPU per row. With TLS or GSS libpq keeps the connection
and hands out one message at a time. Both leave CopyData messages, as the server sends them, in one
buffer for :mod:`pgsluice.changelog.scan`.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import psycopg
from psycopg import pq

from pgsluice.errors import (
    PublicationMissingError,
    SlotInvalidatedError,
    SlotMissingError,
    SlotTakenError,
    SluiceError,
    SourceError,
    SourceUnreachableError,
)
from pgsluice.postgres.session import error_fields, is_encrypted

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgsluice.changelog.position import Lsn

BUFFER_BYTES: Final = 4 << 20  # grows when one row is larger
_RECEIVE_BUFFER: Final = 4 << 20  # the kernel's: what gathers while we wait or write the last piece
_GATHER_SECONDS: Final = 0.025  # without a look at the line while traffic is high: few, large reads
_UNIX_GATHER_SECONDS: Final = 0.001  # a socket of a file holds only some hundred messages
_GATHERED: Final = 2 << 20  # after as much in one read the next follows at once: more lies behind it
_BUSY: Final = 32 << 10  # as much in one of the next two times means that traffic is high
_RISE_SECONDS: Final = 0.005  # while traffic is low: soon found out when it rises
_FALL_SECONDS: Final = 0.25  # while it is high: longer, since the server is silent while it sorts
_RECORD_READS: Final = 3  # a TLS record has up to 16 KiB, of which libpq takes at least 8 at a time
_COPY_DATA: Final = struct.Struct(">cI").pack
_ORIGIN_FROM: Final = 160000
_PG_EPOCH: Final = 946684800  # seconds from 1970 to 2000


class ReplicationStream(Protocol):
    """What the listener needs from a connection."""

    buffer: npt.NDArray[np.uint8]
    size: int  # bytes in the buffer

    def begin(self, command: bytes) -> None:
        """Send START_REPLICATION and wait until the server agrees."""
        ...

    def fill(self, timeout: float, wake: int) -> None:
        """Wait for bytes, for the descriptor ``wake`` or for the timeout, then take what is there."""
        ...

    def consume(self, count: int) -> None:
        """Forget the first bytes of the buffer."""
        ...

    def take_other(self) -> None:
        """Deal with the message at the front that is not CopyData: raise, or skip it."""
        ...

    def send_status(self, written: Lsn, flushed: Lsn, *, ask_reply: bool = False) -> None:
        """Tell the server what we have; it may throw away what ``flushed`` covers."""
        ...

    def close(self) -> None:
        """End the copy and close."""
        ...


def start(
    connection: psycopg.Connection,
    slot: str,
    publications: tuple[str, ...],
    lsn: Lsn,
    *,
    local_only: bool = False,
) -> ReplicationStream:
    """
    Begin to stream from ``lsn`` over a fresh replication connection.

    With ``local_only`` a server that can leaves out what it replicated from elsewhere itself.
    """
    names = ",".join('"' + name.replace('"', '""') + '"' for name in publications).replace("'", "''")
    origin = ", origin 'none'" if local_only and connection.info.server_version >= _ORIGIN_FROM else ""
    command = (
        f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn} '
        f"(proto_version '1', publication_names '{names}', messages 'true'{origin})"
    ).encode()
    way = _LibpqStream if is_encrypted(connection) else _SocketStream
    stream: ReplicationStream = way(connection, slot)
    try:
        stream.begin(command)
    except BaseException:
        stream.close()  # its descriptor is its own
        raise
    return stream


class _Buffer:
    """The bytes between the connection and the scan."""

    def __init__(self) -> None:
        self.buffer: npt.NDArray[np.uint8] = np.empty(BUFFER_BYTES, np.uint8)
        self.size = 0

    def consume(self, count: int) -> None:
        """Forget the first bytes of the buffer."""
        rest = self.size - count
        if count and rest:
            self.buffer[:rest] = self.buffer[count : self.size]  # numpy minds the overlap
        self.size = rest

    def room(self, wanted: int) -> memoryview:
        """The free end of the buffer, at least ``wanted`` bytes."""
        if len(self.buffer) - self.size < wanted:
            larger = np.empty(max(len(self.buffer) * 2, self.size + wanted), np.uint8)
            larger[: self.size] = self.buffer[: self.size]
            self.buffer = larger
        return self.buffer.data[self.size :]

    def shrink(self) -> None:
        """Give back what one very large row took."""
        if len(self.buffer) > BUFFER_BYTES and self.size < BUFFER_BYTES // 2:
            kept = self.buffer[: self.size]
            self.buffer = np.empty(BUFFER_BYTES, np.uint8)
            self.buffer[: self.size] = kept


class _Gate:
    """
    Waiting at a socket: for the first byte while traffic is low, for a piece to gather while it is high.

    The server flushes message by message. Woken by each, we would read a million rows in some 200 thousand
    pieces, and waking us would cost the server as much again; this way they are some hundreds. Nobody waits
    at the line meanwhile: also a low-water mark (SO_RCVLOWAT) has the kernel acknowledge each message by
    itself, in the server's time, which doubles the CPU that sending takes. A read's own size says nothing
    about traffic, for who reads fast reads little; so bytes are counted over time.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._busy = False  # traffic is high
        self._received = 0  # by the last read
        self._recent, self._recent_since = 0, time.monotonic()  # bytes, and since when they are counted
        self._gather_seconds = _GATHER_SECONDS if line.family != socket.AF_UNIX else _UNIX_GATHER_SECONDS

    def wait(self, timeout: float, wake: int) -> None:
        """Until bytes have come, ``wake`` is readable or the time is over."""
        if self._busy and self._received < _GATHERED:
            select.select([wake], [], [], min(timeout, self._gather_seconds))
        select.select([self._line.fileno(), wake], [], [], timeout)

    def count(self, received: int) -> None:
        """Take note of what was read."""
        self._received = received
        self._recent += received
        now = time.monotonic()
        if now - self._recent_since >= (_FALL_SECONDS if self._busy else _RISE_SECONDS):
            self._busy = self._recent >= _BUSY
            self._recent, self._recent_since = 0, now


class _SocketStream(_Buffer):
    """The socket itself, read in bulk. Only for connections without encryption."""

    def __init__(self, connection: psycopg.Connection, slot: str) -> None:
        super().__init__()
        self._connection = connection  # libpq keeps its own descriptor; it must stay idle
        self._slot = slot
        self._socket = socket.socket(fileno=socket.dup(connection.pgconn.socket))
        self._gate = _Gate(self._socket)

    def begin(self, command: bytes) -> None:
        """Sent by us, not by libpq, which may read far past CopyBothResponse."""
        self._send(b"Q" + struct.pack(">I", len(command) + 5) + command + b"\0")
        self._await_copy()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)

    def _await_copy(self) -> None:
        self._socket.settimeout(60)
        while True:
            while self.size >= 5:
                length = int.from_bytes(bytes(self.buffer[1:5]), "big")
                if self.size < 1 + length:
                    break
                if self.buffer[0] == ord("W"):
                    self.consume(1 + length)
                    return
                self.take_other()
            self._receive()

    def _receive(self) -> int:
        try:
            count = self._socket.recv_into(self.room(1))
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise SourceUnreachableError(f"the replication connection broke: {exc.strerror or exc}") from exc
        if count == 0:
            raise SourceUnreachableError("the server closed the replication connection")
        self.size += count
        return count

    def fill(self, timeout: float, wake: int) -> None:
        """Wait, then read once."""
        self.shrink()
        self._gate.wait(timeout, wake)
        self._gate.count(self._receive())

    def take_other(self) -> None:
        """An error ends the stream, a notice may; the rest says nothing to us."""
        kind = chr(self.buffer[0])
        length = int.from_bytes(bytes(self.buffer[1:5]), "big")
        if self.size < 1 + length:
            return
        fields = error_fields(bytes(self.buffer[5 : 1 + length])) if kind in "EN" else {}
        self.consume(1 + length)
        if kind == "E":
            raise replication_error(fields, self._slot)
        if kind == "N":
            check_notice(fields.get("M", ""))
        if kind in "cCZ":
            raise SourceUnreachableError("the server ended the replication stream")

    def send_status(self, written: Lsn, flushed: Lsn, *, ask_reply: bool = False) -> None:
        """A standby status update as CopyData."""
        body = _status(written, flushed, ask_reply)
        self._send(b"d" + struct.pack(">I", len(body) + 4) + body)

    def _send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(10)
            self._socket.sendall(data)
        except OSError as exc:
            raise SourceUnreachableError(f"the replication connection broke: {exc.strerror or exc}") from exc
        finally:
            self._socket.setblocking(False)

    def close(self) -> None:
        """End the copy politely and close both descriptors."""
        try:
            self._send(b"c" + struct.pack(">I", 4))
            self._send(b"X" + struct.pack(">I", 4))
        except SourceUnreachableError:
            pass  # it was broken already
        self._socket.close()
        self._connection.close()


class _LibpqStream(_Buffer):
    """libpq's own reader, one message at a time: the way through TLS and GSS."""

    def __init__(self, connection: psycopg.Connection, slot: str) -> None:
        super().__init__()
        self._connection = connection
        self._pgconn = connection.pgconn
        self._slot = slot
        self._line = socket.socket(fileno=socket.dup(connection.pgconn.socket))  # for waiting only
        self._gate = _Gate(self._line)
        self._notices: list[str] = []
        self._pgconn.notice_handler = self._note

    def begin(self, command: bytes) -> None:
        """By libpq, from here to the end."""
        result = self._pgconn.exec_(command)
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise replication_error(_result_fields(result), self._slot)

    def _note(self, result: pq.abc.PGresult) -> None:
        self._notices.append(_result_fields(result).get("M", ""))

    def fill(self, timeout: float, wake: int) -> None:
        """Wait, then take messages until there are none or the buffer is well filled."""
        self.shrink()
        before = self.size
        if not self._take():
            self._gate.wait(timeout, wake)
        # Messages arrive in as many TLS records, and libpq takes one at a time. What it has decrypted and
        # not yet taken wakes nobody: one record's worth is asked for before we wait again.
        fruitless = 0
        while self.size < BUFFER_BYTES // 2 and fruitless < _RECORD_READS:
            self._consume_input()
            fruitless = 0 if self._take() else fruitless + 1
        self._gate.count(self.size - before)

    def _consume_input(self) -> None:
        try:
            self._pgconn.consume_input()
        except psycopg.Error as exc:
            raise SourceUnreachableError(f"the replication connection broke: {exc}") from exc

    def _take(self) -> bool:
        """Move the messages that libpq holds into the buffer; whether there were any."""
        parts: list[bytes | memoryview] = []
        size = 0
        while size < BUFFER_BYTES // 2:
            count, data = self._pgconn.get_copy_data(1)
            if self._notices:
                check_notice(self._notices.pop())
            if count <= 0:
                break
            parts += (_COPY_DATA(b"d", count + 4), data)
            size += count + 5
        if size:
            self.room(size)[:size] = b"".join(parts)
            self.size += size
        if count < 0:
            raise replication_error(_result_fields(self._pgconn.get_result()), self._slot)
        return size > 0

    def take_other(self) -> None:
        """Never called: libpq hands out nothing but CopyData."""
        raise SourceError("a message that is not CopyData came through libpq")

    def send_status(self, written: Lsn, flushed: Lsn, *, ask_reply: bool = False) -> None:
        """A standby status update."""
        try:
            self._pgconn.put_copy_data(_status(written, flushed, ask_reply))
            self._pgconn.flush()
        except psycopg.Error as exc:
            raise SourceUnreachableError(f"the replication connection broke: {exc}") from exc

    def close(self) -> None:
        """Closing the connection ends the copy."""
        self._line.close()
        self._connection.close()


def _status(written: Lsn, flushed: Lsn, ask_reply: bool) -> bytes:
    now = int((time.time() - _PG_EPOCH) * 1_000_000)
    return b"r" + struct.pack(">qqqqb", written, flushed, flushed, now, ask_reply)


def _result_fields(result: pq.abc.PGresult | None) -> dict[str, str]:
    if result is None:
        return {}
    wanted = {"C": pq.DiagnosticField.SQLSTATE, "M": pq.DiagnosticField.MESSAGE_PRIMARY}
    return {
        key: (result.error_field(field) or b"").decode("utf-8", "replace") for key, field in wanted.items()
    }


def check_notice(text: str) -> None:
    """Refuse to go on when the server leaves rows out of the stream."""
    if "skipped loading publication" in text:
        raise PublicationMissingError(
            f"the server reports: {text}; rows are missing from the stream from here on",
            remedy="Create it again, then run pgsluice destroy and init, and copy the data again",
        )


def replication_error(fields: dict[str, str], slot: str) -> SluiceError:
    """The right class for what the server said."""
    state, text = fields.get("C", ""), fields.get("M", "the connection was lost")
    if state == "55006":
        return SlotTakenError(
            f"replication slot {slot!r} is in use: {text}",
            remedy="Stop the other run, or end its connection on the server with pg_terminate_backend",
        )
    if state == "42704" and "publication" in text:
        return PublicationMissingError(
            f"the server can't decode: {text}",
            remedy="The slot is stuck there: run pgsluice destroy, then init, and copy again",
        )
    if state == "42704":
        return SlotMissingError(
            f"replication slot {slot!r} does not exist on the server", remedy="Run `pgsluice init` to make it"
        )
    if state == "55000" and ("can no longer" in text or "invalidated" in text):
        return SlotInvalidatedError(
            f"replication slot {slot!r} was invalidated: {text}",
            remedy="Run pgsluice destroy, then init, and copy again; raise max_slot_wal_keep_size",
        )
    if state in ("", "57P01", "57P02", "57P03") or state.startswith("08"):
        return SourceUnreachableError(f"the server ended the connection: {text}")
    return SourceError(f"the server refused to stream: {text} (SQLSTATE {state})")
