"""Single messages out of a segment of the log, by their offset."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.scan import HEADER

if TYPE_CHECKING:
    from typing import BinaryIO

_LENGTH: Final = struct.Struct("<I")
_LSN: Final = struct.Struct("<Q")


def read_lsn(file: BinaryIO, offset: int) -> int:
    """Where in the WAL the change stands whose frame begins at an offset."""
    file.seek(offset + _LENGTH.size)
    return int(_LSN.unpack(file.read(_LSN.size))[0])


def read_frame(file: BinaryIO, offset: int) -> bytes:
    """The message of the frame that begins at an offset."""
    file.seek(offset)
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    file.seek(offset + HEADER)
    return file.read(length)
