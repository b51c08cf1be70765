"""
Bytes of the change log from messages, to test what reads it without a server.

The inverse of ``pgsluice.source.pgoutput.plain``::

    log = frame(Begin(commit_lsn=100, commit_ts=0, xid=7)) + frame(Insert(relid=1, new=("a", None)))
"""

from __future__ import annotations

import struct
from functools import singledispatch
from typing import TYPE_CHECKING

from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput.decode import RelationAt
from pgsluice.source.pgoutput.plain import frames
from pgsluice.source.pgoutput.relation import relation_message

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["encode", "frame", "frame_bytes", "relations_at"]


def frame(message: m.Message, lsn: int = 0) -> bytes:
    """A frame of the log with this message."""
    return frame_bytes(encode(message), lsn)


def frame_bytes(message: bytes, lsn: int = 0) -> bytes:
    """A frame of the log with a message that is bytes already."""
    return struct.pack("<IQ", len(message), lsn) + message


def relations_at(log: bytes, versions: Mapping[int, int] | None = None) -> list[RelationAt]:
    """
    What the index of a log would say about its Relation frames.

    ``versions`` gives the version of a relid; others are numbered as they come.
    """
    found: list[RelationAt] = []
    for each in frames(log):
        if isinstance(each.message, m.Relation):
            table = each.message
            version = (versions or {}).get(table.relid, len(found) + 1)
            found.append(
                RelationAt(each.offset, table.relid, version, table.schema, table.name, len(table.columns))
            )
    return found


@singledispatch
def encode(message: m.Message) -> bytes:
    """The message as pgoutput sends it."""
    raise TypeError(f"{message!r} is not a message")


@encode.register
def _(message: m.Begin) -> bytes:
    return b"B" + struct.pack(">QqI", message.commit_lsn, message.commit_ts, message.xid)


@encode.register
def _(message: m.Commit) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, message.commit_lsn, message.end_lsn, message.commit_ts)


@encode.register
def _(message: m.Origin) -> bytes:
    return b"O" + struct.pack(">Q", message.commit_lsn) + _string(message.name)


@encode.register
def _(message: m.Relation) -> bytes:
    return relation_message(message)


@encode.register
def _(message: m.Type) -> bytes:
    return b"Y" + struct.pack(">I", message.oid) + _namespace(message.schema) + _string(message.name)


@encode.register
def _(message: m.Insert) -> bytes:
    return b"I" + struct.pack(">I", message.relid) + b"N" + _tuple(message.new)


@encode.register
def _(message: m.Update) -> bytes:
    old = b""
    if message.old is not None:
        old = (message.old_kind or "O").encode() + _tuple(message.old)
    return b"U" + struct.pack(">I", message.relid) + old + b"N" + _tuple(message.new)


@encode.register
def _(message: m.Delete) -> bytes:
    return b"D" + struct.pack(">I", message.relid) + message.old_kind.encode() + _tuple(message.old)


@encode.register
def _(message: m.Truncate) -> bytes:
    options = message.cascade | message.restart_identity << 1
    count = len(message.relids)
    return b"T" + struct.pack(f">IB{count}I", count, options, *message.relids)


@encode.register
def _(message: m.LogicalMessage) -> bytes:
    head = struct.pack(">BQ", message.transactional, message.lsn) + _string(message.prefix)
    return b"M" + head + struct.pack(">I", len(message.content)) + message.content


def _namespace(schema: str) -> bytes:
    return _string("" if schema == "pg_catalog" else schema)


def _string(text: str | bytes) -> bytes:
    return _bytes(text) + b"\0"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _tuple(values: m.Tuple) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(_value(value) for value in values)


def _value(value: m.Value) -> bytes:
    if value is None:
        return b"n"
    if isinstance(value, m.Unchanged):
        return b"u"
    text = _bytes(value)
    return b"t" + struct.pack(">I", len(text)) + text
