"""
FF1 of NIST SP 800-38G over many values at once, compiled: texts of symbols, and whole numbers.

Numbers of any length are held as digits, so that no value is too long; a test holds all of it against NIST's
samples. The cipher is the one of :mod:`~pgsluice.modifiers.transforms.aes`, for masking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pgsluice.changelog.compiled import compiled
from pgsluice.modifiers.transforms.aes import BOX, TWICE, encrypt_block, expand_key

if TYPE_CHECKING:
    import numpy.typing as npt

_ROUNDS: Final = 10


def _number_of(numerals: Any, radix: Any, out: Any) -> None:
    """The number that numerals write, in bytes, the highest first."""
    out[:] = 0
    for numeral in numerals:
        carry = np.uint32(numeral)
        for i in range(len(out) - 1, -1, -1):
            carry += out[i] * np.uint32(radix)
            out[i] = carry & np.uint32(255)
            carry >>= np.uint32(8)


_number = compiled(_number_of)


def _add_to(numerals: Any, limbs: Any, radix: Any) -> None:
    """Add a number to the one that numerals write, without what goes beyond them; the number is used up."""
    carry = np.uint64(0)
    for place in range(len(numerals) - 1, -1, -1):
        rest = np.uint64(0)
        for i in range(len(limbs)):
            rest = (rest << np.uint64(32)) | limbs[i]
            limbs[i] = rest // radix
            rest %= radix
        total = np.uint64(numerals[place]) + rest + carry
        numerals[place] = total % radix
        carry = total // radix


_add = compiled(_add_to)


def _encrypt_numerals(keys: Any, box: Any, twice: Any, tweak: Any, radix: Any, sizes: Any, x: Any) -> None:
    """Encrypt numerals in their place; ``sizes`` says how many bytes so many numerals need."""
    left = len(x) // 2
    size, t = sizes[len(x) - left], len(tweak)
    wide = 4 * ((size + 3) // 4) + 4
    first, block = np.zeros(16, np.uint8), np.empty(16, np.uint8)
    first[0], first[1], first[2], first[6], first[7] = 1, 2, 1, 10, left % 256
    for i in range(3):
        first[3 + i] = (radix >> np.uint64(8 * (2 - i))) & np.uint64(255)
    for i in range(4):
        first[8 + i], first[12 + i] = (len(x) >> (8 * (3 - i))) & 255, (t >> (8 * (3 - i))) & 255
    encrypt_block(keys, box, twice, first)
    text = np.zeros(t + (-t - size - 1) % 16 + 1 + size, np.uint8)
    text[:t] = tweak
    limbs = np.empty(wide // 4, np.uint64)
    mac = np.empty(16, np.uint8)
    for number in range(_ROUNDS):
        a, b = (x[:left], x[left:]) if number % 2 == 0 else (x[left:], x[:left])
        text[len(text) - size - 1] = number
        _number(b, radix, text[len(text) - size :])
        mac[:] = first
        for at in range(0, len(text), 16):
            for i in range(16):
                mac[i] ^= text[at + i]
            encrypt_block(keys, box, twice, mac)
        for i in range(len(limbs)):
            if i % 4 == 0:
                block[:] = mac
                if i:
                    block[15] ^= np.uint8(i // 4 & 255)
                    block[14] ^= np.uint8(i // 1024 & 255)
                    encrypt_block(keys, box, twice, block)
            limbs[i] = 0
            for byte in range(4):
                limbs[i] = (limbs[i] << np.uint64(8)) | block[4 * (i % 4) + byte]
        _add(a, limbs, radix)


_encrypt = compiled(_encrypt_numerals)


def _texts_each(
    keys: Any, box: Any, twice: Any, tweak: Any, radix: Any, sizes: Any,
    numerals: Any, starts: Any, keep: Any, least: Any, strict: Any, failed: Any,
) -> None:  # fmt: skip
    """Encrypt the numerals of each text, but for some at its ends; what is -1 stays in its place."""
    for text in range(len(starts) - 1):
        own = numerals[starts[text] : starts[text + 1]]
        places = np.flatnonzero(own >= 0)
        if len(places) < keep[0] + keep[1] + least:
            failed[text] = True
            continue
        places = places[keep[0] : len(places) - keep[1]]
        if strict and places[-1] - places[0] + 1 != len(places):
            failed[text] = True
            continue
        chosen = own[places].astype(np.uint16)
        _encrypt(keys, box, twice, tweak, radix, sizes, chosen)
        for i in range(len(places)):
            own[places[i]] = chosen[i]


_texts = compiled(_texts_each)


def _is_above(numerals: Any, limit: Any) -> Any:
    for i in range(len(limit)):
        if numerals[i] != limit[i]:
            return numerals[i] > limit[i]
    return False


_above = compiled(_is_above)


def _integers_each(
    keys: Any, box: Any, twice: Any, tweak: Any, sizes: Any, data: Any, offsets: Any, highest: Any
) -> None:
    """
    Encrypt the digits of each number until there is a number again with as many digits, which the type holds.

    That walk stays among such numbers, so it is one to one. A single digit is walked as the second of two.
    """
    for value in range(len(offsets) - 1):
        is_negative = data[offsets[value]] == 45
        digits = data[offsets[value] + is_negative : offsets[value + 1]]
        is_single = len(digits) == 1
        x = np.zeros(len(digits) + is_single, np.uint16)
        for i in range(len(digits)):
            x[i + is_single] = digits[i] - 48
        limit = highest[int(is_negative)]
        while True:
            _encrypt(keys, box, twice, tweak, np.uint64(10), sizes, x)
            if is_single:
                if x[0] == 0 and (x[1] != 0 or not is_negative):
                    break
            elif x[0] != 0 and (len(x) < len(limit) or not _above(x, limit)):
                break
        for i in range(len(digits)):
            digits[i] = x[i + is_single] + 48


_integers = compiled(_integers_each)


def byte_sizes(radix: int, most: int) -> npt.NDArray[np.int64]:
    """How many bytes hold any number of so many numerals."""
    return np.array([((radix**count - 1).bit_length() + 7) // 8 for count in range(most + 1)], np.int64)


def encrypt_texts(
    key: bytes, tweak: bytes, radix: int, numerals: npt.NDArray[np.int32], starts: npt.NDArray[np.int64],
    *, keep: tuple[int, int], least: int, strict: bool,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Encrypt many texts in their place; gives those that can't be."""
    failed = np.zeros(len(starts) - 1, np.bool_)
    sizes = byte_sizes(radix, int(np.diff(starts).max(initial=0)) // 2 + 1)
    _texts(
        expand_key(key), BOX, TWICE, np.frombuffer(tweak, np.uint8), np.uint64(radix), sizes, numerals,
        starts, np.array(keep, np.int64), least, strict, failed,
    )  # fmt: skip
    return failed


def encrypt_integers(
    key: bytes, tweak: bytes, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], bits: int
) -> None:
    """Encrypt many decimal numbers in their place; the type holds those of so many bits."""
    highest = np.array([[int(digit) for digit in str(end)] for end in (2**bits - 1, 2**bits)], np.uint16)
    _integers(
        expand_key(key),
        BOX,
        TWICE,
        np.frombuffer(tweak, np.uint8),
        byte_sizes(10, 20),
        data,
        offsets,
        highest,
    )
