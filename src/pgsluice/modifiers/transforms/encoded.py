"""Bytes as texts and back, many at once: base64 for URLs (RFC 4648) without padding, and bytea."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pgsluice.changelog.compiled import compiled

if TYPE_CHECKING:
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Offsets = npt.NDArray[np.int64]

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_PREFIX: Final = 2  # characters of ``\\x``


def parts(texts: pa.StringArray) -> tuple[Bytes, Offsets]:
    """The bytes of all texts, and where each begins and the last one ends."""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(data or b"", np.uint8), places


def texts_of(data: Bytes, offsets: Offsets) -> pa.StringArray:
    """Texts from their bytes."""
    return pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)
    )


def base64_url(data: Bytes, offsets: Offsets) -> tuple[Bytes, Offsets]:
    """Each part in base64."""
    sizes = np.diff(offsets)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum((sizes * 4 + 2) // 3)])
    out = np.empty(int(ends[-1]), np.uint8)
    _base64_all(np.frombuffer(_ALPHABET, np.uint8), data, offsets, out, ends)
    return out, ends


def _base64_each(alphabet: Any, data: Any, offsets: Any, out: Any, ends: Any) -> None:
    for part in range(len(offsets) - 1):
        at, held, bits = ends[part], 0, 0
        for i in range(offsets[part], offsets[part + 1]):
            held = ((held << 8) | data[i]) & 0xFFFFFF
            bits += 8
            while bits >= 6:
                bits -= 6
                out[at] = alphabet[(held >> bits) & 63]
                at += 1
        if bits:
            out[at] = alphabet[(held << (6 - bits)) & 63]


_base64_all = compiled(_base64_each)


def bytes_of_bytea(data: Bytes, offsets: Offsets) -> tuple[Bytes, Offsets]:
    """What texts such as ``\\x0a0b`` stand for."""
    sizes = (np.diff(offsets) - _PREFIX) // 2
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    out = np.empty(int(ends[-1]), np.uint8)
    _unhex_all(data, offsets, out, ends)
    return out, ends


def _unhex_each(data: Any, offsets: Any, out: Any, ends: Any) -> None:
    for part in range(len(offsets) - 1):
        at = offsets[part] + 2
        for i in range(ends[part], ends[part + 1]):
            byte = 0
            for _ in range(2):
                digit = data[at]
                at += 1
                byte = byte * 16 + (digit - 48 if digit <= 57 else (digit | 32) - 87)
            out[i] = byte


_unhex_all = compiled(_unhex_each)


def bytea_of_bytes(data: Bytes, offsets: Offsets) -> tuple[Bytes, Offsets]:
    """Bytes as PostgreSQL writes them."""
    sizes = np.diff(offsets)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(2 * sizes + _PREFIX)])
    out = np.empty(int(ends[-1]), np.uint8)
    _hex_all(_HEX, data, offsets, out, ends)
    return out, ends


def _hex_each(digits: Any, data: Any, offsets: Any, out: Any, ends: Any) -> None:
    for part in range(len(offsets) - 1):
        at = ends[part]
        out[at], out[at + 1] = 92, 120
        for i in range(offsets[part], offsets[part + 1]):
            at += 2
            out[at], out[at + 1] = digits[data[i] >> 4], digits[data[i] & 15]


_hex_all = compiled(_hex_each)


def characters(texts: pa.StringArray) -> tuple[npt.NDArray[np.uint32], Offsets]:
    """The characters of all texts, and where each text begins and the last one ends."""
    data, offsets = parts(texts)
    own = data[offsets[0] : offsets[-1]]
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum((own & 0xC0) != 0x80)])
    codes = np.frombuffer(own.tobytes().decode().encode("utf-32-le"), np.uint32)
    return codes, counted[offsets - offsets[0]]


def texts_of_characters(codes: npt.NDArray[np.uint32], starts: Offsets) -> pa.StringArray:
    """Texts from their characters."""
    sizes = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    data = codes.astype("<u4").tobytes().decode("utf-32-le").encode()
    return texts_of(np.frombuffer(data, np.uint8), ends[starts])
