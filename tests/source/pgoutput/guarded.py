"""
A program that feeds mutated logs to both decoders, with the bytes beside forbidden memory.

Run by ``test_mutations.py`` in a process of its own, since a read outside the buffer kills it::

    python -m tests.source.pgoutput.guarded each
    python -m tests.source.pgoutput.guarded SEED COUNT
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pgsluice.changelog.plan import OpenTransaction
from pgsluice.errors import DecodeError
from pgsluice.source.pgoutput import messages as m
from pgsluice.testing.pgoutput import encode, frame, frame_bytes, relations_at

from .comparing import Cut, fast, slow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0

OPENED = OpenTransaction(commit_lsn=100, commit_ts=5, xid=7, end_lsn=110, seq=0)


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


_COLUMNS = tuple(m.RelationColumn(f"c{i}", 25, -1, i == 0) for i in range(3))
HEAD: list[m.Message] = [
    m.LogicalMessage(False, 90, "prefix", b"outside"),
    m.Begin(100, 5, 7),
    m.Origin(1, "elsewhere"),
    m.Type(70000, "public", "mood"),
    m.Relation(1, "public", "one", "d", _COLUMNS),
    m.Relation(2, "public", "zwei", "f", _COLUMNS[:1]),
    m.Relation(3, "pgsluice", "own", "n", ()),
]
ROWS: list[m.Message] = [
    m.Insert(1, ("a", None, "c" * 20)),
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
COMMIT = m.Commit(100, 110, 5)


def example(dice: random.Random) -> list[bytes]:
    """The frames of a valid log with a bit of everything."""
    rows = [dice.choice(ROWS) for _ in range(dice.randrange(1, 9))]
    return [frame(part, dice.getrandbits(40)) for part in (*HEAD, *rows, COMMIT)]


def each_place() -> Iterator[list[bytes]]:
    """Every kind of message as the last one, cut or changed at each of its bytes."""
    for kind in (*HEAD, *ROWS, COMMIT):
        before = HEAD[: HEAD.index(kind)] if kind in HEAD else HEAD
        body = encode(kind)
        for at in range(len(body)):
            damaged = [body[:at]] + [
                body[:at] + number + body[at + len(number) :]
                for number in (b"\0", b"\xff", b"t", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff")
            ]
            yield from ([*map(frame, before), frame_bytes(last)] for last in damaged)


def mutate(frames: list[bytes], dice: random.Random) -> bytes:
    """
    The log after a few accidents.

    Most keep the frames' borders, to get past the first check; often the damaged frame is the last one,
    right before the forbidden memory.
    """
    frames = list(frames)
    i = 0
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
    log = b"".join(frames[: i + 1] if dice.randrange(2) else frames)
    return log[: dice.randrange(len(log) + 1)] if dice.randrange(16) == 0 else log


def random_places(seed: int, count: int) -> Iterator[list[bytes]]:
    """Valid logs after a few accidents."""
    dice = random.Random(seed)
    for _ in range(count):
        yield [mutate(example(dice), dice)]


def compare(logs: Iterable[list[bytes]]) -> dict[str, int]:
    """Feed logs to both decoders; says how many were refused by both and how many decoded equally."""
    memory = GuardedMemory(3 * _PAGE)
    every_relation = relations_at(b"".join(map(frame, HEAD)), {3: -1})
    outcomes = {"refused": 0, "equal": 0}
    for number, frames in enumerate(logs):
        log = b"".join(frames)
        relations = [known for known in every_relation if known.offset < len(log)]
        data = memory.put(log, at_end=number % 5 != 0)
        for opened in (None, OPENED):
            expected, found = (
                _outcome(decoder, source, relations, Cut(len(log), opened))
                for decoder, source in ((slow, log), (fast, data))
            )
            assert found == expected, (number, log, found, expected)
            outcomes["refused" if expected is None else "equal"] += 1
    return outcomes


def _outcome(decoder: Callable[..., Any], *arguments: Any) -> Any:
    source, relations, end = arguments
    try:
        return decoder(source, relations, end=end)
    except DecodeError:
        return None


def run_alone(module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a guarded program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=Path(__file__).parents[3],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def main(what: str, count: str = "0") -> None:
    """Run one of the comparisons, or prove that the guard works."""
    if what == "overread":
        array = GuardedMemory(_PAGE).put(b"x" * 10, at_end=True)
        ctypes.string_at(array.ctypes.data, 11)
    logs = each_place() if what == "each" else random_places(int(what), int(count))
    sys.stdout.write(json.dumps(compare(logs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
