"""Messages of a replication connection as the server sends them."""

from __future__ import annotations

import struct


def wire(message: bytes, lsn: int = 0) -> bytes:
    """One message as the server sends it."""
    body = b"w" + struct.pack(">qqq", lsn, lsn, 0) + message
    return b"d" + struct.pack(">I", len(body) + 4) + body


def keepalive(lsn: int, reply: bool = False) -> bytes:
    """A keepalive of the server."""
    body = b"k" + struct.pack(">qqb", lsn, 0, reply)
    return b"d" + struct.pack(">I", len(body) + 4) + body
