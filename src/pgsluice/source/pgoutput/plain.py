"""
The decoder in plain Python: bytes to messages, slowly and readably.

It is the oracle that the compiled decoder (``decode.py``) is tested against, reads single messages
where speed does not matter (``relation.py``), and prints the stream for people. ``plain_rows.py``
makes the envelope's rows from its messages.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pgsluice.changelog.position import Lsn
from pgsluice.errors import DecodeError
from pgsluice.source.pgoutput import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_FRAME: Final = struct.Struct("<IQ")
_LATEST: Final = 2**63 - 1 - 946_684_800_000_000  # the envelope counts microseconds from 1970


class Cursor:
    """Reads one message from front to back; a read past its end raises DecodeError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, length: int) -> bytes:
        """Exactly so many bytes."""
        if length > len(self._data) - self._at:
            raise DecodeError(f"{length} bytes expected, {len(self._data) - self._at} left")
        self._at += length
        return self._data[self._at - length : self._at]

    def read_uint(self, size: int) -> int:
        """Int8, Int16 or Int32 that is never negative: most significant byte first."""
        return int.from_bytes(self.read(size), "big")

    def read_int32(self) -> int:
        """Int32: most significant byte first, two's complement."""
        return int.from_bytes(self.read(4), "big", signed=True)

    def read_lsn(self) -> int:
        """Int64 (XLogRecPtr)."""
        lsn = self.read_uint(8)
        if lsn >= 2**63 - 1:  # a message alone ends one behind it
            raise DecodeError("impossible LSN")
        return lsn

    def read_timestamp(self) -> int:
        """Int64 (TimestampTz): microseconds since 2000-01-01, negative before."""
        return int.from_bytes(self.read(8), "big", signed=True)

    def read_mark(self, allowed: str) -> str:
        """Byte1: one of the characters that may stand there."""
        mark = chr(self.read_uint(1))
        if mark not in allowed:
            raise DecodeError(f"{mark!r} where one of {allowed!r} is expected")
        return mark

    def read_flags(self, highest: int) -> int:
        """Int8: flags that are known."""
        flags = self.read_uint(1)
        if flags > highest:
            raise DecodeError(f"unknown flags {flags}")
        return flags

    def read_string(self) -> bytes:
        """String: bytes up to a zero."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise DecodeError("string without an end")
        text = self.read(end - self._at)
        self._at += 1
        return text

    def read_name(self) -> str:
        """String that names something; always UTF-8, as the client encoding is."""
        try:
            return self.read_string().decode()
        except UnicodeDecodeError as exc:
            raise DecodeError("name that is not UTF-8") from exc

    def read_namespace(self) -> str:
        """String: a schema's name, where nothing stands for pg_catalog."""
        return self.read_name() or "pg_catalog"

    def read_value(self) -> m.Value:
        """Byte1 ('n': null, 'u': unchanged TOAST, 't': text); for text Int32 length and the bytes."""
        mark = self.read_mark("nut")
        if mark == "n":
            return None
        return m.UNCHANGED if mark == "u" else text_or_bytes(self.read(self.read_uint(4)))

    def read_tuple(self) -> m.Tuple:
        """TupleData: Int16 number of columns, and a value for each."""
        return tuple(self.read_value() for _ in range(self.read_uint(2)))

    def read_end(self) -> None:
        """Nothing may follow."""
        if self._at != len(self._data):
            raise DecodeError(f"{len(self._data) - self._at} bytes too many")


def text_or_bytes(data: bytes) -> str | bytes:
    """The text, or the bytes as they are when they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _begin(cursor: Cursor) -> m.Begin:
    begin = m.Begin(cursor.read_lsn(), cursor.read_timestamp(), cursor.read_uint(4))
    if begin.commit_ts > _LATEST:
        raise DecodeError("impossible time of a commit")
    return begin


def _commit(cursor: Cursor) -> m.Commit:
    cursor.read_flags(0)
    return m.Commit(cursor.read_lsn(), cursor.read_lsn(), cursor.read_timestamp())


def _origin(cursor: Cursor) -> m.Origin:
    return m.Origin(cursor.read_lsn(), cursor.read_name())


def _relation(cursor: Cursor) -> m.Relation:
    relid, schema, name = cursor.read_uint(4), cursor.read_namespace(), cursor.read_name()
    identity = cursor.read_mark("dnfi")
    columns = tuple(_column(cursor) for _ in range(cursor.read_uint(2)))
    return m.Relation(relid, schema, name, identity, columns)  # type: ignore[arg-type]


def _column(cursor: Cursor) -> m.RelationColumn:
    in_identity = cursor.read_flags(1) == 1
    return m.RelationColumn(cursor.read_name(), cursor.read_uint(4), cursor.read_int32(), in_identity)


def _type(cursor: Cursor) -> m.Type:
    return m.Type(cursor.read_uint(4), cursor.read_namespace(), cursor.read_name())


def _insert(cursor: Cursor) -> m.Insert:
    relid = cursor.read_uint(4)
    cursor.read_mark("N")
    return m.Insert(relid, cursor.read_tuple())


def _update(cursor: Cursor) -> m.Update:
    relid, mark, old = cursor.read_uint(4), cursor.read_mark("KON"), None
    if mark != "N":
        old = _old_tuple(cursor)
        cursor.read_mark("N")
    old_kind = None if mark == "N" else cast("m.OldKind", mark)
    return m.Update(relid, cursor.read_tuple(), old, old_kind)


def _delete(cursor: Cursor) -> m.Delete:
    relid, mark = cursor.read_uint(4), cursor.read_mark("KO")
    return m.Delete(relid, _old_tuple(cursor), cast("m.OldKind", mark))


def _old_tuple(cursor: Cursor) -> m.Tuple:
    old = cursor.read_tuple()
    if m.UNCHANGED in old:  # the server puts old values in line, whatever their size
        raise DecodeError("unchanged value in an old tuple")
    return old


def _truncate(cursor: Cursor) -> m.Truncate:
    count, options = cursor.read_uint(4), cursor.read_flags(3)
    relids = struct.unpack(f">{count}I", cursor.read(4 * count))
    return m.Truncate(relids, bool(options & 1), bool(options & 2))


def _logical(cursor: Cursor) -> m.LogicalMessage:
    transactional, lsn = cursor.read_flags(1) == 1, cursor.read_lsn()
    prefix = text_or_bytes(cursor.read_string())
    return m.LogicalMessage(transactional, lsn, prefix, cursor.read(cursor.read_uint(4)))


_READERS: Final[Mapping[str, Callable[[Cursor], m.Message]]] = {
    "B": _begin,
    "C": _commit,
    "D": _delete,
    "I": _insert,
    "M": _logical,
    "O": _origin,
    "R": _relation,
    "T": _truncate,
    "U": _update,
    "Y": _type,
}


def decode_message(data: bytes) -> m.Message:
    """Decode one message; raises DecodeError unless the bytes are exactly that."""
    cursor = Cursor(data)
    message = _READERS[cursor.read_mark("BCDIMORTUY")](cursor)
    cursor.read_end()
    return message


@dataclass(frozen=True, slots=True)
class Frame:
    """A message where it stands in the log."""

    offset: int
    lsn: Lsn
    message: m.Message


def frames(data: bytes, base: int = 0) -> Iterator[Frame]:
    """Decode frame after frame of a segment's bytes; ``base`` is the offset of the first."""
    at = 0
    while at < len(data):
        if len(data) - at < _FRAME.size:
            raise DecodeError(f"cut-off frame at offset {base + at}", offset=base + at)
        length, lsn = _FRAME.unpack_from(data, at)
        end = at + _FRAME.size + length
        if end > len(data):
            raise error_at("frame that runs past the end", lsn, base + at)
        try:
            message = decode_message(data[at + _FRAME.size : end])
        except DecodeError as exc:
            raise error_at(exc.message, lsn, base + at) from exc
        yield Frame(base + at, Lsn(lsn), message)
        at = end


def error_at(what: str, lsn: int, offset: int) -> DecodeError:
    """The error for what is wrong with a frame."""
    return DecodeError(f"{what} at {Lsn(lsn)}, offset {offset}", lsn=str(Lsn(lsn)), offset=offset)
