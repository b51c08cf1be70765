"""Single messages out of a segment of the log, by their offset."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.scan import DESCRIPTIONS, FRAME_HEAD, HEADER

if TYPE_CHECKING:
    from typing import BinaryIO

_LENGTH: Final = struct.Struct("<I")
_LATEST: Final = 1 << 63


def read_lsn(file: BinaryIO, offset: int) -> int:
    """
    Where in the WAL the change stands whose frame begins at an offset.

    A Relation message has no place of its own: it has that of the change before which it was sent.
    """
    while True:
        file.seek(offset)
        head = file.read(FRAME_HEAD.size)
        if len(head) < FRAME_HEAD.size:  # that change is still coming in
            return _LATEST
        length, lsn, kind = FRAME_HEAD.unpack(head)
        if lsn or kind not in DESCRIPTIONS:
            return int(lsn)
        offset += HEADER + length


def read_frame(file: BinaryIO, offset: int) -> bytes:
    """The message of the frame that begins at an offset."""
    file.seek(offset)
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    file.seek(offset + HEADER)
    return file.read(length)
