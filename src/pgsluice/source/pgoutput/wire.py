"""
What both compiled passes share: the marks of the wire, the readers, and which Relation frame holds.

``measure.py`` checks and counts, ``fill.py`` copies; ``kernel.py`` compiles the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from pgsluice.source.pgoutput.buffers import Bytes, Longs

# First byte of a message.
BEGIN: Final = 0x42
COMMIT: Final = 0x43
DELETE: Final = 0x44
INSERT: Final = 0x49
MESSAGE: Final = 0x4D
ORIGIN: Final = 0x4F
RELATION: Final = 0x52
TRUNCATE: Final = 0x54
UPDATE: Final = 0x55
TYPE: Final = 0x59

# Before a TupleData: the key of the old row, the whole old row, the new row.
KEY_TUPLE: Final = 0x4B
OLD_TUPLE: Final = 0x4F
NEW_TUPLE: Final = 0x4E

# Before each value of a TupleData.
BINARY: Final = 0x62
NULL: Final = 0x6E
TEXT: Final = 0x74
TOAST: Final = 0x75  # unchanged, and not sent

HEADER: Final = 12  # of a frame: u32 length, u64 LSN
UNIX_EPOCH: Final = 946_684_800_000_000  # microseconds from 1970 to PostgreSQL's epoch, 2000-01-01
LAST_LSN: Final = 2**63 - 1  # the largest number of an envelope's column
LATEST: Final = LAST_LSN - UNIX_EPOCH  # later times don't fit when counted from 1970
OWN_PREFIX: Final = b"pgsluice."  # of heartbeats and markers: counted, never given out
OPTIONS: Final = b"cascade,restart_identity"

# Places in the counters: what ``measure`` found, and what ``fill`` has used of it.
VALUES: Final = 0
OLD: Final = 1
UNCHANGED: Final = 2
PREFIX_BYTES: Final = 3
CONTENT_BYTES: Final = 4
ENDS: Final = 5  # those above have an offset per row in the envelope
VALUE_BYTES: Final = 5
OLD_BYTES: Final = 6
ROWS: Final = 7
COUNTERS: Final = 8

# Places in the header of the open transaction, and in the columns that are made from it.
COMMIT_LSN: Final = 0
SEQ: Final = 1
XID: Final = 2
COMMIT_TS: Final = 3  # from 1970
END_LSN: Final = 4
LONGS: Final = 5
NONE_OPEN: Final = -1  # as COMMIT_LSN: outside a transaction

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F) -> _F:
    """Compile a part of the two passes; only the passes themselves are cached on disk."""
    return cast("_F", njit(nogil=True)(function))


def _memcpy(_: Any, source: Any, at: Any, target: Any, to: Any, length: Any) -> Any:
    """``memcpy`` from one array of bytes to another: ten times as fast as a loop on short values."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        origin = context.make_array(source)(context, builder, args[0]).data
        destination = context.make_array(target)(context, builder, args[2]).data
        cast("Any", cgutils).raw_memcpy(
            builder, builder.gep(destination, [args[3]]), builder.gep(origin, [args[1]]), args[4], 1
        )
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64), generate


copy_bytes: Any = intrinsic(_memcpy)
"""``copy_bytes(source, at, target, to, length)``, in compiled code only."""


@compiled
def byte(data: Bytes, at: int) -> int:
    """One byte; an unsigned index spares numba's look for negative ones and lets loads be joined."""
    return np.int64(data[np.uint64(at)])  # type: ignore[return-value]


@compiled
def u16(data: Bytes, at: int) -> int:
    """Int16, most significant byte first."""
    return byte(data, at) << 8 | byte(data, at + 1)


@compiled
def u32(data: Bytes, at: int) -> int:
    """Int32, most significant byte first; never negative, so one comparison finds a bad length."""
    high = byte(data, at) << 24 | byte(data, at + 1) << 16
    return high | byte(data, at + 2) << 8 | byte(data, at + 3)


@compiled
def i64(data: Bytes, at: int) -> int:
    """Int64, most significant byte first."""
    return u32(data, at) << 32 | u32(data, at + 4)


@compiled
def frame_length(data: Bytes, at: int) -> int:
    """The length of a frame's message; the header alone is little-endian."""
    low = byte(data, at) | byte(data, at + 1) << 8
    return low | byte(data, at + 2) << 16 | byte(data, at + 3) << 24


@compiled
def after_zero(data: Bytes, at: int, end: int) -> int:
    """The position after a string's closing zero; -1 when there is none before ``end``."""
    while at < end:
        if data[at] == 0:
            return at + 1
        at += 1
    return -1


@compiled
def is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Whether the bytes are what RFC 3629 allows: no overlong forms, no surrogates."""
    while at < end:
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        follow = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if lead < 0xC2 or lead > 0xF4 or end - at <= follow:
            return False
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if data[at + 1] < low or data[at + 1] > high:
            return False
        for i in range(2, follow + 1):
            if data[at + i] & 0xC0 != 0x80:
                return False
        at += follow + 1
    return True


@compiled
def is_own(data: Bytes, at: int, end: int) -> bool:
    """Whether a message's prefix is one of ours."""
    if end - at < len(OWN_PREFIX):
        return False
    for i in range(len(OWN_PREFIX)):  # noqa: SIM110 - numba has no all()
        if data[at + i] != OWN_PREFIX[i]:
            return False
    return True


@compiled
def needs_hex(data: Bytes, at: int, end: int) -> bool:
    r"""Whether a message's content is written as ``\x…``: not UTF-8, or it begins like that itself."""
    if end - at >= 2 and data[at] == 0x5C and data[at + 1] == 0x78:
        return True
    return not is_utf8(data, at, end)


@compiled
def option_text(options: int) -> tuple[int, int]:
    """Where in ``OPTIONS`` the text of a Truncate's options stands: 1 is cascade, 2 restart identity."""
    return 8 if options == 2 else 0, 0 if options == 0 else 7 if options == 1 else len(OPTIONS)


@compiled
def in_force(relid: int, ids: Longs, force: Longs) -> int:
    """The Relation frame that holds for a relid; -1 when there is none."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < relid:
            low = middle + 1
        else:
            high = middle
    return int(force[low]) if low < len(ids) and ids[low] == relid else -1


@compiled
def before_range(offset: Longs, slot: Longs, force: Longs) -> int:
    """Put the Relation frames before the range in force; the index of the first one that is not."""
    force[:] = -1
    frame = 0
    while frame < len(offset) and offset[frame] < 0:
        force[slot[frame]] = frame
        frame += 1
    return frame
