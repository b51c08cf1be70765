"""
The hexadecimal text of bytea, decoded for a whole column at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PREFIX: Final = "\\x"
_NO_DIGIT: Final = 255

_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[list(b"0123456789abcdef")] = range(16)
_DIGITS[list(b"ABCDEF")] = range(10, 16)


def decode_hex(values: pa.Array) -> pa.Array:
    """The bytes of each ``\\x00ff``; NULL where the text is none."""
    if len(values) == 0:
        return pa.array([], pa.binary())
    lengths = pc.binary_length(values)
    fits = pc.and_(pc.starts_with(values, _PREFIX), pc.equal(pc.bit_wise_and(lengths, 1), 0))
    decoded = _decode(pc.if_else(fits, values, None))
    if decoded is None:  # other letters than digits somewhere, which no server writes
        is_hex = pc.match_substring_regex(values.cast(pa.binary()), r"^\\x([0-9a-fA-F]{2})*$")
        decoded = _decode(pc.if_else(is_hex, values, None))
    return decoded


def _decode(values: pa.Array) -> pa.Array | None:
    texts = pc.fill_null(values, _PREFIX)
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets - offsets[0]
    is_digit = np.ones(len(data), np.bool_)
    is_digit[starts[:-1]] = False
    is_digit[starts[:-1] + 1] = False
    digits = _DIGITS[data[is_digit]]
    if (digits == _NO_DIGIT).any():
        return None
    octets = digits[::2] << 4 | digits[1::2]
    ends = (starts - len(_PREFIX) * np.arange(len(starts), dtype=np.int32)) // 2
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(octets)]
    decoded = pa.Array.from_buffers(pa.binary(), len(texts), buffers)
    return decoded if not values.null_count else pc.if_else(pc.is_valid(values), decoded, None)
