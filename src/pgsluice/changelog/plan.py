"""What a reader hands out: ranges of bytes that can be decoded on their own, cut where the index allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pgsluice.changelog import index

if TYPE_CHECKING:
    from pgsluice.changelog.position import Lsn
    from pgsluice.changelog.segment import Segment

RANGE_BYTES: Final = 4 << 20  # of one task: long enough to be worth a task, short enough to bound its memory


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction that is open where a range starts."""

    commit_lsn: int
    commit_ts: int  # microseconds since 2000-01-01 UTC, as on the wire
    xid: int
    end_lsn: int
    seq: int  # changes of it before the range


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes of one segment that can be decoded on their own."""

    path: str
    start: int
    end: int
    opened: OpenTransaction | None
    first_end_lsn: int  # end of the first transaction that it has a part of
    tail_end_lsn: int  # end of the transaction that is still open at the end of the range; 0 if none
    relations: tuple[int, ...]  # offsets of the Relation frames in force at the start or met in the range
    types: tuple[int, ...]  # offsets of the Type frames before the end
    schema: bool = False  # whether it is one change of the schema, and nothing else


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole transactions: what follows ``start`` up to and including ``end``."""

    start: Lsn
    end: Lsn
    ranges: tuple[LogRange, ...]
    bytes: int
    changes: int  # row changes and messages; those of unwanted tables included

    @property
    def changes_schema(self) -> bool:
        """Whether changes of the schema are among them."""
        return any(range_.schema for range_ in self.ranges)


def cuts(records: index.Records, begin: int, end: int, range_bytes: int) -> list[int]:
    """Offsets between which ranges lie: ends of units and marks, about ``range_bytes`` apart."""
    possible = records["offset"][index.is_unit(records) | index.is_mark(records)]
    possible = np.unique(possible[(possible > begin) & (possible < end)])
    places = [begin]
    for stop in [*_around_schema(records, possible, begin, end), end]:
        while True:
            at = int(np.searchsorted(possible, places[-1] + range_bytes))
            if at >= len(possible) or possible[at] >= stop:
                break
            places.append(int(possible[at]))
        if stop > places[-1]:
            places.append(stop)
    return places


def _around_schema(records: index.Records, possible: Any, begin: int, end: int) -> list[int]:
    """Where a change of the schema begins and ends, which is a range of its own."""
    found = records["offset"][records["kind"] == index.SCHEMA]
    found = found[(found >= begin) & (found < end)]
    after = np.searchsorted(possible, found, "right")  # there is a mark right after each
    return sorted({*found.tolist(), *possible[after[after < len(possible)]].tolist()})


def range_of(segment: Segment, records: index.Records, start: int, stop: int, later_end: int) -> LogRange:
    """
    The bytes from ``start`` to ``stop`` with what decoding them takes.

    ``later_end`` is the end of a transaction that is open at ``stop`` and of which the segment has no end.
    """
    marks = records[index.is_mark(records) & (records["offset"] == start)]
    units = records[index.is_unit(records)]
    first_end = _end_after(units, start, later_end)
    opened = None
    if len(marks):
        mark = marks[0]
        opened = OpenTransaction(
            int(mark["commit_lsn"]),
            int(mark["commit_ts"]),
            int(mark["xid"]),
            first_end,
            int(mark["seq"]),
        )
    whole = bool((units["offset"] == stop).any())
    relations = records[(records["kind"] == index.RELATION) & (records["offset"] < stop)]
    in_force = {int(r["relid"]): int(r["offset"]) for r in relations[relations["offset"] < start]}
    met = relations["offset"][relations["offset"] >= start].tolist()
    types = records["offset"][(records["kind"] == index.TYPE) & (records["offset"] < stop)]
    return LogRange(
        str(segment.data),
        start,
        stop,
        opened,
        first_end,
        0 if whole else _end_after(units, stop, later_end),
        tuple(sorted([*in_force.values(), *met])),
        tuple(types.tolist()),
        schema=bool((marks["kind"] == index.SCHEMA).any()),
    )


def _end_after(units: index.Records, offset: int, later_end: int) -> int:
    """The end of the transaction that is open at ``offset``."""
    ends = units["end_lsn"][units["offset"] > offset]
    return int(ends[0]) if len(ends) else later_end
