"""Single messages out of a segment of the log, by their offset."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pgsluice.changelog.scan import HEADER

if TYPE_CHECKING:
    from typing import BinaryIO


def read_frame(file: BinaryIO, offset: int) -> bytes:
    """The message of the frame that begins at an offset."""
    file.seek(offset)
    (length,) = struct.unpack("<I", file.read(4))
    file.seek(offset + HEADER)
    return file.read(length)
