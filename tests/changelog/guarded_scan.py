"""
A program that feeds mutated bytes of a connection to the scan, beside forbidden memory.

Run by ``test_scan.py`` in a process of its own, since a read outside the buffer kills it::

    python -m tests.changelog.guarded_scan SEED COUNT
"""

from __future__ import annotations

import json
import mmap
import random
import struct
import sys
from collections import Counter
from typing import Any

from pgsluice.changelog.scan import AGAIN, OTHER, Scanner
from pgsluice.errors import DecodeError
from pgsluice.testing.pgoutput import encode
from tests.changelog.wire import keepalive, wire
from tests.source.pgoutput.guarded import COMMIT, HEAD, ROWS, GuardedMemory

NUMBERS = (b"\0\0\0\0", b"\0\0\0\x04", b"\0\0\0\x05", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff")
KINDS = b"dwkBCIUDTRYMOENcZ\x00\x01\xff"
NOTICE = b"N" + struct.pack(">I", 9) + b"SWARN"


def example(dice: random.Random) -> list[bytes]:
    """A valid stream with a bit of everything."""
    rows = [dice.choice(ROWS) for _ in range(dice.randrange(1, 6))]
    messages = [wire(encode(part), dice.getrandbits(40)) for part in (*HEAD, *rows, COMMIT)]
    messages.insert(dice.randrange(len(messages)), keepalive(dice.getrandbits(40), reply=True))
    if dice.randrange(4) == 0:
        messages.insert(dice.randrange(len(messages)), NOTICE)
    return messages


def mutate(messages: list[bytes], dice: random.Random) -> bytes:
    """The stream after a few accidents; most leave the lengths right, to get past the first check."""
    messages = list(messages)
    i = 0
    for _ in range(dice.randrange(3)):
        i = dice.randrange(len(messages))
        part = bytearray(messages[i])
        at = dice.randrange(len(part)) if part else 0
        accident = dice.choice(["flip", "byte", "kind", "number", "length", "cut", "insert", "drop", "swap"])
        if accident == "flip" and part:
            part[at] ^= 1 << dice.randrange(8)
        elif accident == "byte" and part:
            part[at] = dice.choice(KINDS)
        elif accident == "kind" and len(part) > 30:
            part[30] = dice.choice(KINDS)  # of the message inside
        elif accident == "number":
            part[at : at + 4] = dice.choice(NUMBERS)
        elif accident == "length":
            part[1:5] = dice.choice(NUMBERS)
        elif accident in ("cut", "insert") and len(part) > 5:
            at = dice.randrange(5, len(part))
            part[at:] = b"" if accident == "cut" else dice.randbytes(dice.randrange(1, 6)) + part[at:]
            part[1:5] = struct.pack(">I", len(part) - 1)
        elif accident == "drop":
            part.clear()
        elif accident == "swap":
            j = dice.randrange(len(messages))
            messages[j], part = bytes(part), bytearray(messages[j])
        messages[i] = bytes(part)
    stream = b"".join(messages[: i + 1] if dice.randrange(2) else messages)
    return stream[: dice.randrange(len(stream) + 1)] if dice.randrange(4) == 0 else stream


def framed(stream: bytes) -> bytes:
    """The log's frames of whole messages, one after another in plain Python."""
    found, at = b"", 0
    while at < len(stream):
        (length,) = struct.unpack_from(">I", stream, at + 1)
        if stream[at + 5] == ord("w"):
            (lsn,) = struct.unpack_from(">Q", stream, at + 6)
            message = stream[at + 30 : at + 1 + length]
            found += struct.pack("<IQ", len(message), lsn) + message
        at += 1 + length
    assert at == len(stream), "stopped inside a message"
    return found


def scanned(memory: GuardedMemory, stream: bytes, pieces: list[int], *, at_end: bool) -> Any:
    """What comes of a stream that arrives in pieces of these sizes; None when it is refused."""
    scanner = Scanner(0)
    pending, frames, records, consumed, why = b"", b"", [], 0, "rest"
    try:
        for start, stop in zip([0, *pieces], [*pieces, len(stream)], strict=True):
            pending += stream[start:stop]
            while True:
                found = scanner.scan(memory.put(pending, at_end), len(pending))
                assert 0 <= found.consumed <= len(pending)
                frames += bytes(found.frames)
                records += found.records.tolist()
                consumed += found.consumed
                pending = pending[found.consumed :]
                if found.reason != AGAIN:
                    break
            if found.reason == OTHER:
                assert pending[0] != ord("d")
                why = "other"
                break
    except DecodeError:
        return None
    assert frames == framed(stream[:consumed])
    return frames, records, why


def main(seed: str, count: str) -> None:
    """Scan mutated streams, whole and in pieces; print how they ended."""
    dice = random.Random(int(seed))
    memory = GuardedMemory(2 * mmap.PAGESIZE)
    outcomes: Counter[str] = Counter()
    for number in range(int(count)):
        stream = mutate(example(dice), dice)
        pieces = sorted(dice.randrange(len(stream) + 1) for _ in range(dice.randrange(4)))
        whole = scanned(memory, stream, [], at_end=number % 5 != 0)
        assert scanned(memory, stream, pieces, at_end=True) == whole, (number, stream, pieces)
        outcomes["refused" if whole is None else whole[2]] += 1
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
