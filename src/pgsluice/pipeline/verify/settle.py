"""
Comparing the two sides of a table, first by buckets, then by the keys of buckets that differ.

Rows change while they are read, and a target is behind its source. So a key that differs is looked at again:
in the source, then in the target when that has all that was committed before, then in the source once more. A
row that did not change in between must be the same in the target; of one that did it may have either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pgsluice.pipeline.verify.report import RowDifference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgsluice.pipeline.verify.report import Kind, TableReport
    from pgsluice.sinks.base import Key, RowDigests, Tally

_BUCKET_BYTES: Final = 64 << 10  # of a table, in each bucket
_MOST_BUCKETS: Final = 1 << 16
_GROUP_ROWS: Final = 50_000  # that are compared by their keys at a time: the bound of memory
_MOST_DIFFERENCES: Final = 100_000  # of a table: then it is clear enough


class Awaits(Protocol):
    """Waits until the target has what the source has committed; False when it does not come so far."""

    def __call__(self) -> bool:
        """Wait."""
        ...


@dataclass(frozen=True, slots=True)
class Sides:
    """A table in the source, as the target would hold it, and in the target."""

    source: RowDigests
    target: RowDigests
    buckets: int


@dataclass(frozen=True, slots=True)
class Settling:
    """How rows that differ are looked at again."""

    catch_up: Awaits
    rounds: int  # 0: nothing runs, so nothing comes
    shown: int  # how many rows are told of, by table


def buckets_for(size: int) -> int:
    """How many buckets a table of so many bytes has: a power of two."""
    return min(1 << (size // _BUCKET_BYTES).bit_length(), _MOST_BUCKETS)


def compare(sides: Sides, settling: Settling, report: TableReport, names: Sequence[str]) -> None:
    """Fill the report of a table; ``names`` are those of its key's columns."""
    here = sides.source.by_bucket(sides.buckets)
    if settling.rounds:
        settling.catch_up()
    there = sides.target.by_bucket(sides.buckets)
    report.source_rows, report.target_rows = _count(here), _count(there)
    for group in _groups(here, there):
        for kind, key, rows in _settled(sides, group, settling):
            setattr(report, kind, getattr(report, kind) + 1)
            if len(report.rows) < settling.shown:
                named = names if len(names) == len(key) else ("(digest of the row)",)
                report.rows.append(RowDifference(kind, dict(zip(named, key, strict=True)), rows))
        if report.missing + report.extra + report.different >= _MOST_DIFFERENCES:
            report.more = True
            return


def compare_counts(sides: Sides, settling: Settling, report: TableReport) -> None:
    """Compare how many rows there are, and nothing else."""
    for _ in range(max(settling.rounds, 1)):
        before = _count(sides.source.by_bucket(1))
        if settling.rounds:
            settling.catch_up()
        held = _count(sides.target.by_bucket(1))
        after = _count(sides.source.by_bucket(1)) if settling.rounds else before
        report.source_rows, report.target_rows = after, held
        if min(before, after) <= held <= max(before, after):
            return
    report.missing, report.extra = max(0, after - held), max(0, held - after)


def _count(tallies: dict[int, Tally]) -> int:
    return sum(rows for rows, _ in tallies.values())


def _groups(here: dict[int, Tally], there: dict[int, Tally]) -> Iterator[list[int]]:
    """The buckets that differ, some at a time."""
    group: list[int] = []
    size = 0
    for bucket in sorted({*here, *there}):
        one, other = here.get(bucket, (0, 0)), there.get(bucket, (0, 0))
        if one == other:
            continue
        group.append(bucket)
        size += max(one[0], other[0])
        if size >= _GROUP_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _settled(
    sides: Sides, group: Sequence[int], settling: Settling
) -> Iterator[tuple[Kind, Key, tuple[int, int]]]:
    """What is still not the same when everybody had time."""
    here = sides.source.by_key(sides.buckets, group)
    if settling.rounds:
        settling.catch_up()
    there = sides.target.by_key(sides.buckets, group)
    kinds: dict[Key, Kind] = {
        key: _kind(here.get(key), there.get(key))
        for key in {**here, **there}
        if here.get(key) != there.get(key)
    }
    for _ in range(settling.rounds):
        if not kinds:
            break
        here = sides.source.by_key(sides.buckets, group, kinds)
        up_to_date = settling.catch_up()
        there = sides.target.by_key(sides.buckets, group, kinds)
        after = sides.source.by_key(sides.buckets, group, kinds)
        left: dict[Key, Kind] = {}
        for key in kinds:
            # What it was in an earlier round does not count: it must have been overwritten since.
            if there.get(key) not in (here.get(key), after.get(key)):
                restless = up_to_date and here.get(key) != after.get(key)
                left[key] = "unsettled" if restless else _kind(here.get(key), there.get(key))
        kinds = left
    for key, kind in sorted(kinds.items()):
        yield kind, key, (here.get(key, (0, 0))[0], there.get(key, (0, 0))[0])


def _kind(here: Tally | None, there: Tally | None) -> Kind:
    wanted, held = (here or (0, 0))[0], (there or (0, 0))[0]
    return "missing" if held < wanted else "extra" if held > wanted else "different"
