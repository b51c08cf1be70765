"""
The bare loop of our own: reads a slot in bulk and throws everything away.

The yardstick stays as it is, whatever becomes of the listener: a socket with a receive buffer of 4 MiB and
a low-water mark of 256 KiB. What came is only walked through, message by message, to count the changes and
to find the last commit. Nothing is confirmed.
A process of its own, like the listener: options as JSON on standard input, the result on standard output.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import njit

from pgsluice.changelog.position import Lsn
from pgsluice.source.connect import connect

if TYPE_CHECKING:
    import numpy.typing as npt

_BUFFER: Final = 4 << 20
_LOW_WATER: Final = 256 << 10
_PATIENCE: Final = 0.05  # seconds without so much: the rest is less


@njit(cache=True, nogil=True)
def _walk(wire: npt.NDArray[np.uint8], size: int, wanted: int) -> tuple[Any, Any, Any]:
    """Bytes of whole messages, changes among them, and the end of the commit behind the last wanted one."""
    at = np.int64(0)
    changes = 0
    while at + 5 <= size:
        length = (
            (np.int64(wire[at + 1]) << 24)
            | (np.int64(wire[at + 2]) << 16)
            | (np.int64(wire[at + 3]) << 8)
            | np.int64(wire[at + 4])
        )
        if at + 1 + length > size:
            break
        message = at + 30  # behind the headers of CopyData and XLogData
        if wire[at + 5] == 119 and length > 29:
            kind = wire[message]
            if kind == 73 or kind == 85 or kind == 68:  # I U D
                changes += 1
            elif kind == 67 and changes >= wanted:  # C
                end = np.int64(0)
                for i in range(8):
                    end = (end << 8) | np.int64(wire[message + 10 + i])
                return at + 1 + length, changes, end
        at += 1 + length
    return at, changes, 0


class _Reader:
    """The socket of a replication connection after START_REPLICATION, and what was read from it."""

    def __init__(self, url: str, slot: str, publication: str) -> None:
        self.buffer = np.empty(_BUFFER, np.uint8)
        self.size = 0
        self._connection = connect(url, replication=True)
        self._socket = socket.socket(fileno=socket.dup(self._connection.pgconn.socket))
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 '
            f"(proto_version '1', publication_names '\"{publication}\"', messages 'true')"
        ).encode()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self._socket.sendall(b"Q" + struct.pack(">I", len(command) + 5) + command + b"\0")
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LOW_WATER)

    def fill(self) -> None:
        """Read once, when much has come or after a while."""
        select.select([self._socket], [], [], _PATIENCE)
        with suppress(BlockingIOError):
            self.size += self._socket.recv_into(self.buffer.data[self.size :])

    def consume(self, count: int) -> None:
        """Forget the first bytes."""
        rest = self.size - count
        self.buffer[:rest] = self.buffer[count : self.size]
        self.size = rest

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        self._connection.close()


def throw_away(url: str, slot: str, publication: str, changes: int) -> dict[str, Any]:
    """Read so many changes and the commit behind them."""
    _walk(np.zeros(8, np.uint8), 0, 0)  # loads the compiled pass before the clock
    left, end = changes, 0
    started, cpu = time.monotonic(), time.process_time()
    reader = _Reader(url, slot, publication)
    while not end:
        reader.fill()
        consumed, found, end = _walk(reader.buffer, reader.size, left)
        reader.consume(consumed)
        left -= found
    result = {
        "seconds": time.monotonic() - started,
        "cpu": time.process_time() - cpu,
        "changes": changes - left,
        "end": str(Lsn(end)),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    reader.close()
    return result


if __name__ == "__main__":
    sys.stdout.write(json.dumps(throw_away(**json.loads(sys.stdin.readline()))) + "\n")
