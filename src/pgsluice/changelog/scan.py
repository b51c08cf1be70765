"""
The compiled pass between the replication connection and the log.

Takes the bytes of the wire (CopyData messages as the server sends them), writes the log's plain
framing (length, LSN, message) and finds transaction ends, relations and marks for the index. Nothing
per row is done in Python. What is inside a row is none of its business: see ``source.pgoutput``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pgsluice.changelog.compiled import compiled, copy_bytes
from pgsluice.changelog.index import (
    END,
    MARK,
    MESSAGE,
    OPENED,
    RECORD,
    RELATION,
    SCHEMA,
    TYPE,
    WORDS,
    Records,
)
from pgsluice.errors import DecodeError

if TYPE_CHECKING:
    import numpy.typing as npt

HEADER: Final = 12  # a frame's u32 length and u64 LSN, little-endian
FRAME_HEAD: Final = struct.Struct("<IQc")  # the same with the first byte of the message, which is its kind
DESCRIPTIONS: Final = (b"R", b"Y")  # Relation and Type: sent before the first change that needs them
MARK_BYTES: Final = 1 << 20  # a place to start decoding about every MiB
MAX_RECORDS: Final = 8192  # found in one pass; the pass stops when they are used up

# Slots of the state that lives from one pass to the next.
_OPEN, _COMMIT, _TS, _XID, _SEQ, _BASE, _MARKED, _WAL_END, _REPLY = 0, 1, 2, 3, 4, 5, 6, 7, 8
_LOCAL_ONLY = 9  # whether changes that the source itself replicated from elsewhere are left out
_FOREIGN = 10  # whether the open transaction came from elsewhere
_SCHEMA = 11  # the number of the table whose rows are changes of the schema
_STATE = 12

_SCHEMA_LOG: Final = np.frombuffer(b"pgsluice\0schema_log\0", np.uint8)  # as a Relation message begins
_NO_RECORDS: Final = np.empty(0, RECORD)

MORE: Final = 0  # the rest is a part of a message
OTHER: Final = 1  # the next message is not CopyData: a notice, an error, the end of the copy
AGAIN: Final = 2  # records are used up
BAD: Final = 3  # not a message of protocol 1 where one must be


@compiled
def _big(data: npt.NDArray[np.uint8], at: int, size: int) -> Any:
    value = np.int64(0)
    for i in range(size):
        value = (value << 8) | np.int64(data[at + i])
    return value


@compiled
def _put_header(head: npt.NDArray[np.uint8], count: int, lsn: int) -> None:
    for i in range(4):
        head[i] = (count >> (8 * i)) & 255
    for i in range(8):
        head[4 + i] = (lsn >> (8 * i)) & 255


@compiled
def _put(
    records: npt.NDArray[np.int64], at: int, kind: int, offset: int, end: int, state: Any, relid: int
) -> None:
    records[at, 0] = kind
    records[at, 1] = offset
    records[at, 2] = end
    records[at, 3] = state[_COMMIT]
    records[at, 4] = state[_TS]
    records[at, 5] = state[_XID]
    records[at, 6] = state[_SEQ]
    records[at, 7] = relid


@compiled
def _is_schema_log(wire: npt.NDArray[np.uint8], at: int, stop: int) -> bool:
    same = 0
    while same < len(_SCHEMA_LOG) and at + same < stop and wire[at + same] == _SCHEMA_LOG[same]:
        same += 1
    return same == len(_SCHEMA_LOG)


@compiled
def _scan(
    wire: npt.NDArray[np.uint8],
    size: int,
    frames: npt.NDArray[np.uint8],
    records: npt.NDArray[np.int64],
    state: npt.NDArray[np.int64],
) -> tuple[int, int, int, int]:
    at = 0
    out = 0
    found = 0
    while at + 5 <= size:
        if wire[at] != 100:  # 'd', CopyData
            return at, out, found, OTHER
        length = _big(wire, at + 1, 4)
        if length < 5:
            return at, out, found, BAD
        if at + 1 + length > size:
            break
        if found + 3 > records.shape[0]:
            return at, out, found, AGAIN
        body = at + 5
        stop = at + 1 + length
        if wire[body] == 107:  # 'k', keepalive
            if stop - body != 18:
                return at, out, found, BAD
            state[_WAL_END] = _big(wire, body + 1, 8)
            if wire[body + 17] == 1:
                state[_REPLY] = 1
            at = stop
            continue
        if wire[body] != 119 or stop - body < 26:  # 'w', XLogData with at least one byte
            return at, out, found, BAD
        lsn = _big(wire, body + 1, 8)
        message = body + 25
        kind = wire[message]
        count = stop - message
        offset = state[_BASE] + out
        if kind == 66:  # 'B'egin
            if state[_OPEN] == 1 or count != 21:
                return at, out, found, BAD
            state[_OPEN] = 1
            state[_COMMIT] = _big(wire, message + 1, 8)
            state[_TS] = _big(wire, message + 9, 8)
            state[_XID] = _big(wire, message + 17, 4)
            state[_SEQ] = 0
            state[_MARKED] = offset
            state[_FOREIGN] = 0
        elif kind == 67:  # 'C'ommit
            if state[_OPEN] == 0 or count != 26:
                return at, out, found, BAD
            _put(records, found, END, offset + HEADER + count, _big(wire, message + 10, 8), state, 0)
            found += 1
            state[_OPEN] = 0
        elif kind == 73 or kind == 85 or kind == 68 or kind == 84:  # I U D T
            if state[_OPEN] == 0:
                return at, out, found, BAD
            if offset - state[_MARKED] >= MARK_BYTES:
                _put(records, found, MARK, offset, 0, state, 0)
                found += 1
                state[_MARKED] = offset
            is_schema = kind == 73 and count >= 5 and _big(wire, message + 1, 4) == state[_SCHEMA]
            if is_schema and state[_FOREIGN] == 0:
                _put(records, found, SCHEMA, offset, 0, state, state[_SCHEMA])
                found += 1
            state[_SEQ] += 1
            if state[_FOREIGN] == 1:
                at = stop
                continue
            if is_schema:
                _put(records, found, MARK, offset + HEADER + count, 0, state, 0)
                found += 1
                state[_MARKED] = offset + HEADER + count
        elif kind == 82:  # 'R'elation
            if count < 5:
                return at, out, found, BAD
            relid = _big(wire, message + 1, 4)
            _put(records, found, RELATION, offset, 0, state, relid)
            found += 1
            if _is_schema_log(wire, message + 5, stop):
                state[_SCHEMA] = relid
        elif kind == 89:  # t'Y'pe
            if count < 5:
                return at, out, found, BAD
            _put(records, found, TYPE, offset, 0, state, _big(wire, message + 1, 4))
            found += 1
        elif kind == 77:  # 'M'essage
            if count < 10:
                return at, out, found, BAD
            if wire[message + 1] & 1:
                if state[_OPEN] == 0:
                    return at, out, found, BAD
                state[_SEQ] += 1
                if state[_FOREIGN] == 1:
                    at = stop
                    continue
            else:
                # It comes before the Begin of the transaction that made it and has no commit.
                if state[_OPEN] == 1:
                    return at, out, found, BAD
                own = _big(wire, message + 2, 8)
                state[_COMMIT] = own
                state[_TS] = 0
                state[_XID] = 0
                state[_SEQ] = 0
                # The server sends a message again unless the slot is confirmed beyond its start.
                _put(records, found, MESSAGE, offset + HEADER + count, own + 1, state, 0)
                found += 1
        elif kind == 79:  # 'O'rigin
            if state[_OPEN] == 0:
                return at, out, found, BAD
            state[_FOREIGN] = state[_LOCAL_ONLY]
        else:
            return at, out, found, BAD
        _put_header(frames[out : out + HEADER], count, lsn)
        copy_bytes(frames, out + HEADER, wire, message, count)
        out += HEADER + count
        at = stop
    return at, out, found, MORE


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one pass over the wire gave."""

    consumed: int  # bytes of the wire
    frames: memoryview  # bytes for the segment, valid until the next pass
    records: Records  # for the index; offsets are those of the segment
    reason: int  # MORE, OTHER or AGAIN


class Scanner:
    """
    The pass with its state: the open transaction, and the offset in the segment.

    Args:
        capacity: of the wire's buffer.
        local_only: leave out the rows of transactions that the source replicated from elsewhere; their
            changes are still counted. From PostgreSQL 16 on the server does it when asked.
    """

    def __init__(self, capacity: int, *, local_only: bool = False) -> None:
        self._local_only = local_only
        self._frames = np.empty(capacity, np.uint8)
        self._records = np.zeros((MAX_RECORDS, WORDS), np.int64)
        self._state = np.zeros(_STATE, np.int64)
        self._state[_LOCAL_ONLY] = local_only
        self.scan(self._frames, 0)  # loads the machine code now and not while the server sends

    def scan(self, wire: npt.NDArray[np.uint8], size: int) -> Scanned:
        """Frame as many whole messages as there are in the first ``size`` bytes."""
        if len(self._frames) < size:  # one message may be as large as a row: 1 GiB
            self._frames = np.empty(size, np.uint8)
        consumed, written, found, reason = _scan(wire, size, self._frames, self._records, self._state)
        if reason == BAD:
            raise DecodeError(
                f"the replication stream has an unexpected message at byte {consumed} of {size} "
                f"({bytes(wire[consumed : min(size, consumed + 40)]).hex()})",
                remedy="Report it with the server's version; the log keeps everything before it",
            )
        self._state[_BASE] += written
        return Scanned(consumed, self._frames.data[:written], as_records(self._records[:found]), reason)

    def reset(self, offset: int) -> None:
        """Forget the open transaction: the log was cut, or the connection is new."""
        self._state[:] = 0
        self._state[_LOCAL_ONLY] = self._local_only
        self._state[_BASE] = offset

    def move_to(self, offset: int) -> Records:
        """Go on in a new segment at ``offset``; gives the mark of the open transaction, if any."""
        self._state[_BASE] = offset
        self._state[_MARKED] = offset
        if not self._state[_OPEN]:
            return _NO_RECORDS
        _put(self._records, 0, OPENED, offset, 0, self._state, 0)
        return as_records(self._records[:1])

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun whose Commit has not been seen."""
        return bool(self._state[_OPEN])

    @property
    def wal_end(self) -> int:
        """Up to where the server had looked at the WAL when it sent its last keepalive."""
        return int(self._state[_WAL_END])

    def take_reply_request(self) -> bool:
        """Whether the server asked for a reply since the last call."""
        asked = bool(self._state[_REPLY])
        self._state[_REPLY] = 0
        return asked


def as_records(words: npt.NDArray[np.int64]) -> Records:
    """Index records from the words that the compiled pass writes."""
    if not len(words):
        return _NO_RECORDS
    # kind stands in the low half of the first word and the checksum, still 0, in the high half.
    return words.copy().view(RECORD).reshape(-1)
