"""
A program that feeds mutated logs to both decoders, with the bytes beside forbidden memory.

Run by ``test_mutations.py`` in a process of its own, since a read outside the buffer kills it::

    python -m tests.source.pgoutput.guarded SEED COUNT
"""

from __future__ import annotations

import ctypes
import json
import mmap
import random
import sys

import numpy as np

from pgsluice.errors import DecodeError
from pgsluice.source.pgoutput import messages as m
from pgsluice.testing.pgoutput import frame, relations_at

from .comparing import fast, slow

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0


class GuardedMemory:
    """A few pages between two that nobody may touch."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, self.size + 2 * _PAGE)
        self._all = np.frombuffer(self._map, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        start = self._all.ctypes.data
        for guard in (start, start + _PAGE + self.size):
            if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(_PAGE), _PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")

    def put(self, data: bytes, at_end: bool) -> np.ndarray:
        """The bytes, right before or right after forbidden memory."""
        start = _PAGE + (self.size - len(data) if at_end else 0)
        place = self._all[start : start + len(data)]
        place[:] = np.frombuffer(data, np.uint8)
        return place


def example(dice: random.Random) -> list[bytes]:
    """The frames of a valid log with a bit of everything."""
    columns = tuple(m.RelationColumn(f"c{i}", 25, -1, i == 0) for i in range(3))
    parts: list[m.Message] = [
        m.LogicalMessage(False, 90, "prefix", b"outside"),
        m.Begin(100, 5, 7),
        m.Origin(1, "elsewhere"),
        m.Type(70000, "public", "mood"),
        m.Relation(1, "public", "one", "d", columns),
        m.Relation(2, "public", "zwei", "f", columns[:1]),
        m.Relation(3, "pgsluice", "own", "n", ()),
    ]
    rows: list[m.Message] = [
        m.Insert(1, ("a", None, "c" * dice.randrange(40))),
        m.Insert(3, ()),
        m.Update(1, ("a", m.UNCHANGED, "é")),
        m.Update(1, ("b", m.UNCHANGED, ""), ("a", None, None), "K"),
        m.Update(2, ("x",), ("y",), "O"),
        m.Delete(1, ("b", None, None), "K"),
        m.Delete(2, ("x",), "O"),
        m.Truncate((1, 2, 3), True, True),
        m.LogicalMessage(True, 95, "prefix", "grüße".encode()),
        m.LogicalMessage(True, 95, "pgsluice.heartbeat", b"1"),
        m.LogicalMessage(True, 95, "binary", b"\xff\x00"),
    ]
    parts += [dice.choice(rows) for _ in range(dice.randrange(1, 9))]
    parts.append(m.Commit(100, 110, 5))
    return [frame(part, dice.getrandbits(40)) for part in parts]


def mutate(frames: list[bytes], dice: random.Random) -> bytes:
    """The log after a few accidents; most keep the frames' borders, to get past the first check."""
    frames = list(frames)
    for _ in range(dice.randrange(1, 4)):
        i = dice.randrange(len(frames))
        header, body = frames[i][:12], bytearray(frames[i][12:])
        accident = dice.choice(["flip", "flip", "byte", "number", "cut", "insert", "length", "drop", "swap"])
        at = dice.randrange(len(body)) if body else 0
        if accident == "flip" and body:
            body[at] ^= 1 << dice.randrange(8)
        elif accident == "byte" and body:
            body[at] = dice.choice(b"\x00\x01\x7f\x80\xffntubNKOIUDTMRYBC")
        elif accident == "number":
            body[at : at + 4] = dice.choice(
                [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"]
            )
        elif accident == "cut":
            del body[at:]
        elif accident == "insert":
            body[at:at] = dice.randbytes(dice.randrange(1, 6))
        elif accident == "length":
            length = dice.choice([0, 1, len(body) + 1, max(len(body) - 1, 0), 2**31, 2**32 - 1])
            frames[i] = length.to_bytes(4, "little") + frames[i][4:]
            continue
        elif accident == "drop":
            frames[i] = b""
            continue
        elif accident == "swap":
            j = dice.randrange(len(frames))
            frames[i], frames[j] = frames[j], frames[i]
            continue
        frames[i] = len(body).to_bytes(4, "little") + header[4:12] + bytes(body)
    log = b"".join(frames)
    return log[: dice.randrange(len(log) + 1)] if dice.randrange(8) == 0 else log


def compare(seed: int, count: int) -> dict[str, int]:
    """Feed mutated logs to both; says how many were refused by both and how many decoded equally."""
    dice = random.Random(seed)
    memory = GuardedMemory(3 * _PAGE)
    outcomes = {"refused": 0, "equal": 0}
    for number in range(count):
        frames = example(dice)
        relations = relations_at(b"".join(frames), {3: -1})
        log = mutate(frames, dice)
        data = memory.put(log, at_end=number % 2 == 0)
        try:
            expected = slow(log, relations)
        except DecodeError:
            expected = None
        try:
            found = fast(data, relations)
        except DecodeError:
            found = None
        assert found == expected, (seed, number, log, found, expected)
        outcomes["refused" if expected is None else "equal"] += 1
    return outcomes


if __name__ == "__main__":
    if sys.argv[1] == "overread":
        array = GuardedMemory(_PAGE).put(b"x" * 10, at_end=True)
        ctypes.string_at(array.ctypes.data, 11)
    sys.stdout.write(json.dumps(compare(int(sys.argv[1]), int(sys.argv[2]))))
