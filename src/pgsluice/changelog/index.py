"""
The index beside a segment: fixed-size records of where a reader can start, stop and find relations.

Records are appended after the bytes that they speak of are synced, so a valid record proves that
everything before its offset is on disk. Each has a checksum: the torn tail of a crash ends the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pgsluice.changelog.compiled import compiled

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

END: Final = 1  # a whole transaction: the next unit begins at offset
MESSAGE: Final = 2  # a non-transactional message, a unit of its own: the next unit begins at offset
WATERMARK: Final = 3  # nothing for us up to end_lsn (a keepalive said so)
MARK: Final = 4  # a place inside a transaction where decoding can start, with what it must know
RELATION: Final = 5  # a Relation frame begins at offset
TYPE: Final = 6  # a Type frame begins at offset
OPENED: Final = 7  # like MARK, for the transaction that was open when the segment began
CUT: Final = 8  # what stood here was cut away; seq is a number like no other
SCHEMA: Final = 9  # like MARK, and what begins here is one frame: a change of the schema

RECORD: Final = np.dtype(
    [
        ("kind", "<u4"),
        ("check", "<u4"),
        ("offset", "<i8"),
        ("end_lsn", "<i8"),
        ("commit_lsn", "<i8"),
        ("commit_ts", "<i8"),
        ("xid", "<i8"),
        ("seq", "<i8"),  # END: changes in the transaction; MARK: changes before the mark
        ("relid", "<i8"),
    ]
)
WORDS: Final = RECORD.itemsize // 8

Records = Any
"""A structured numpy array of RECORD."""


@compiled
def _checksums(words: npt.NDArray[np.uint64], out: npt.NDArray[np.uint32]) -> None:
    for row in range(words.shape[0]):
        mixed = np.uint64(0x9E3779B97F4A7C15) ^ (words[row, 0] & np.uint64(0xFFFFFFFF))
        for column in range(1, words.shape[1]):
            mixed = (mixed ^ words[row, column]) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
        out[row] = np.uint32((mixed ^ (mixed >> np.uint64(32))) & np.uint64(0xFFFFFFFF))


def checksums(records: Records) -> npt.NDArray[np.uint32]:
    """The checksum that each record should carry."""
    words = np.ascontiguousarray(records).view(np.uint64).reshape(-1, WORDS)
    out = np.empty(len(records), np.uint32)
    _checksums(words, out)
    return out


def seal(records: Records) -> bytes:
    """The bytes to append to an index file."""
    records["check"] = checksums(records)
    return bytes(records.tobytes())


def load(path: Path) -> Records:
    """The valid records of an index file, up to a torn tail."""
    try:
        return load_from(path, 0)
    except FileNotFoundError:
        return np.empty(0, RECORD)


def load_from(path: Path, first: int) -> Records:
    """The same from a record on, by its number; raises FileNotFoundError when there is no index."""
    with path.open("rb") as file:
        file.seek(first * RECORD.itemsize)
        raw = file.read()
    return valid_prefix(np.frombuffer(raw, RECORD, count=len(raw) // RECORD.itemsize))


def valid_prefix(records: Records) -> Records:
    """The records before the first one whose checksum is wrong."""
    wrong = np.flatnonzero(records["check"] != checksums(records))
    return records[: wrong[0]] if len(wrong) else records


def end_of_units(records: Records) -> int:
    """The offset after the last unit; 0 when there is none."""
    return int(records["offset"][is_unit(records)].max(initial=0))


def final_prefix(records: Records) -> Records:
    """Up to the last unit or watermark: what follows belongs to an unfinished transaction, and may be cut."""
    final = np.flatnonzero(is_unit(records) | (records["kind"] == WATERMARK))
    return records[: int(final[-1]) + 1 if len(final) else 0]


def is_mark(records: Records) -> Any:
    """Which records say what a reader has to know that begins inside a transaction."""
    kind = records["kind"]
    return (kind == MARK) | (kind == OPENED) | (kind == SCHEMA)


def is_unit(records: Records) -> Any:
    """Which records end a unit: a transaction or a message of its own."""
    return (records["kind"] == END) | (records["kind"] == MESSAGE)
