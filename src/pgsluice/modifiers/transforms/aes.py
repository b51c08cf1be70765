"""
AES over many values at once, compiled: the block cipher of FIPS 197, CMAC (RFC 4493) and SIV (RFC 5297).

Arrow has no ciphers, and a call of a library for each value would be a Python loop over rows. The tables are
made here from the definition of the field, and a test holds all of it against published vectors. It is meant
for masking: lookups in tables take times that depend on the key, which others on the machine may measure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pgsluice.changelog.compiled import compiled

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCK: Final = 16  # bytes
_POLYNOMIAL: Final = 0x11B


def _field() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The S-box, and multiplication by 2."""
    twice = np.array([(x << 1) ^ (_POLYNOMIAL if x & 0x80 else 0) for x in range(256)], np.uint8)
    powers, logs = [1], {}
    for exponent in range(255):
        logs[powers[-1]] = exponent
        powers.append(int(twice[powers[-1]]) ^ powers[-1])  # times 3, which generates the field
    box = np.empty(256, np.uint8)
    for x in range(256):
        inverse = powers[(255 - logs[x]) % 255] if x else 0
        value = 0x63
        for shift in range(5):
            value ^= ((inverse << shift) | (inverse >> (8 - shift))) & 0xFF
        box[x] = value
    return box, twice


BOX, TWICE = _field()


def expand_key(key: bytes) -> npt.NDArray[np.uint8]:
    """The round keys of a key of 16, 24 or 32 bytes."""
    words = [list(key[i : i + 4]) for i in range(0, len(key), 4)]
    count, constant = len(words), 1
    for i in range(count, 4 * (count + 7)):
        word = list(words[-1])
        if i % count == 0:
            word = [int(BOX[byte]) for byte in (*word[1:], word[0])]
            word[0] ^= constant
            constant = int(TWICE[constant])
        elif count > 6 and i % count == 4:
            word = [int(BOX[byte]) for byte in word]
        words.append([one ^ other for one, other in zip(word, words[i - count], strict=True)])
    return np.array(words, np.uint8).reshape(-1)


def _encrypt_block(keys: Any, box: Any, twice: Any, block: Any) -> None:
    """Encrypt 16 bytes in their place."""
    state = np.empty(16, np.uint8)
    rounds = len(keys) // 16 - 1
    for i in range(16):
        block[i] ^= keys[i]
    for number in range(1, rounds + 1):
        for column in range(4):
            for row in range(4):
                state[4 * column + row] = box[block[(4 * (column + row) + row) % 16]]
        if number < rounds:
            for column in range(0, 16, 4):
                a, b, c, d = state[column], state[column + 1], state[column + 2], state[column + 3]
                block[column] = twice[a] ^ twice[b] ^ b ^ c ^ d
                block[column + 1] = a ^ twice[b] ^ twice[c] ^ c ^ d
                block[column + 2] = a ^ b ^ twice[c] ^ twice[d] ^ d
                block[column + 3] = twice[a] ^ a ^ b ^ c ^ twice[d]
        else:
            block[:] = state
        for i in range(16):
            block[i] ^= keys[16 * number + i]


encrypt_block = compiled(_encrypt_block)


def _double_block(block: Any) -> None:
    """Double 16 bytes in GF(2^128), in their place."""
    carry = block[0] >> 7
    for i in range(15):
        block[i] = (block[i] << 1) | (block[i + 1] >> 7)
    block[15] = block[15] << 1
    if carry:
        block[15] ^= 0x87  # the field's polynomial


_double = compiled(_double_block)


def _cmac_of(keys: Any, box: Any, twice: Any, text: Any, out: Any) -> None:
    """The CMAC of a text."""
    subkey = np.zeros(16, np.uint8)
    encrypt_block(keys, box, twice, subkey)
    _double(subkey)
    out[:] = 0
    size = len(text)
    whole = max((size - 1) // 16, 0) * 16
    for at in range(0, whole, 16):
        for i in range(16):
            out[i] ^= text[at + i]
        encrypt_block(keys, box, twice, out)
    rest = size - whole
    for i in range(rest):
        out[i] ^= text[whole + i]
    if rest < 16:
        out[rest] ^= 0x80
        _double(subkey)
    for i in range(16):
        out[i] ^= subkey[i]
    encrypt_block(keys, box, twice, out)


_cmac = compiled(_cmac_of)


def _siv_of(mac_keys: Any, keys: Any, box: Any, twice: Any, about: Any, text: Any, out: Any) -> None:
    """The synthetic vector of a text, and the text encrypted under it."""
    mixed, mac = np.empty(16, np.uint8), np.empty(16, np.uint8)
    _cmac(mac_keys, box, twice, np.zeros(16, np.uint8), mixed)
    _double(mixed)
    _cmac(mac_keys, box, twice, about, mac)
    for i in range(16):
        mixed[i] ^= mac[i]
    size = len(text)
    if size >= 16:
        last = text.copy()
        for i in range(16):
            last[size - 16 + i] ^= mixed[i]
    else:
        _double(mixed)
        last = mixed
        for i in range(size):
            last[i] ^= text[i]
        last[size] ^= 0x80
    vector = out[:16]
    _cmac(mac_keys, box, twice, last, vector)
    counter, pad = vector.copy(), np.empty(16, np.uint8)
    counter[8] &= 0x7F
    counter[12] &= 0x7F
    for at in range(0, size, 16):
        pad[:] = counter
        encrypt_block(keys, box, twice, pad)
        for i in range(min(16, size - at)):
            out[16 + at + i] = text[at + i] ^ pad[i]
        for i in range(15, -1, -1):
            counter[i] += 1
            if counter[i]:
                break


_siv = compiled(_siv_of)


def _siv_each(
    mac_keys: Any, keys: Any, box: Any, twice: Any, about: Any, data: Any, starts: Any, ends: Any, out: Any
) -> None:
    at = 0
    for i in range(len(starts)):
        size = 16 + ends[i] - starts[i]
        _siv(mac_keys, keys, box, twice, about, data[starts[i] : ends[i]], out[at : at + size])
        at += size


_siv_all = compiled(_siv_each)


def encrypt_siv(
    key: bytes, about: bytes, data: npt.NDArray[np.uint8], starts: npt.NDArray[Any], ends: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """AES-SIV of many texts in one array of bytes; gives all results, and where each begins."""
    half = len(key) // 2
    sizes = (ends - starts).astype(np.int64) + BLOCK
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    out = np.empty(int(offsets[-1]), np.uint8)
    _siv_all(
        expand_key(key[:half]), expand_key(key[half:]), BOX, TWICE, np.frombuffer(about, np.uint8), data,
        starts.astype(np.int64), ends.astype(np.int64), out,
    )  # fmt: skip
    return out, offsets
