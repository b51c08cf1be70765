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
    """The bytes of each ``\\x00ff``; raises ``ArrowInvalid``, as Arrow's casts do, when one is none."""
    texts = pc.fill_null(values, _PREFIX)
    lengths = pc.binary_length(texts)
    is_hex = pc.and_(pc.starts_with(texts, _PREFIX), pc.equal(pc.bit_wise_and(lengths, 1), 0))
    if not pc.all(is_hex, min_count=0).as_py():
        raise pa.ArrowInvalid("not hexadecimal")
    if len(texts) == 0:
        return pa.array([], pa.binary())
    decoded = _decode(texts)
    return (
        pc.if_else(values.is_valid(), decoded, pa.scalar(None, pa.binary())) if values.null_count else decoded
    )


def _decode(texts: pa.Array) -> pa.Array:
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets - offsets[0]
    is_digit = np.ones(len(data), np.bool_)
    is_digit[starts[:-1]] = False
    is_digit[starts[:-1] + 1] = False
    digits = _DIGITS[data[is_digit]]
    if (digits == _NO_DIGIT).any():
        raise pa.ArrowInvalid("not hexadecimal")
    octets = digits[::2] << 4 | digits[1::2]
    ends = (starts - len(_PREFIX) * np.arange(len(starts), dtype=np.int32)) // 2
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(octets)]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers)
