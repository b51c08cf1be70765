"""
The reading side of the change log: from a position to ranges of bytes that tasks can decode.

Everything that reads the stream reads it here: the pipeline's loops, the Spark source, ``tail``. A
reader sees only whole transactions. It keeps nothing but the index of the segments it is at.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.changelog import index
from pgsluice.changelog.arriving import Arriving, BrokenOffError
from pgsluice.changelog.plan import RANGE_BYTES, LogRange, LogSlice, cuts, range_of
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.segment import Segment, read_meta
from pgsluice.changelog.segment import segments as find_segments
from pgsluice.errors import LogError, SinkBehindLogError

if TYPE_CHECKING:
    from pathlib import Path

BEHIND_REMEDY: Final = (
    "Restore the log; or begin anew: empty the target, and remove the progress that it keeps"
)
_KEPT_INDEXES: Final = 4
_LOOKS: Final = 5  # at a log whose segments are being removed
_NO_LIMIT: Final = 1 << 62
_PG_EPOCH: Final = 946684800  # seconds from 1970 to 2000
_POLL_FLOOR, _POLL_CEILING = 0.0005, 0.005  # seconds between looks at the index while waiting


class LogReader:
    """A place to read a log from. Not shared between threads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        meta = read_meta(directory)
        if meta is None:
            raise LogError(
                f"there is no change log in {directory}", remedy="Start a run with this state directory first"
            )
        self.meta = meta
        self.segments: list[Segment] = []  # in order; the last one may be growing
        self._active = _Tail(None)  # the last segment, which grows
        self._closed: OrderedDict[Segment, index.Records] = OrderedDict()  # the few that were read last
        self._modified = -1
        self._refresh()

    @property
    def first_lsn(self) -> Lsn:
        """
        The oldest position from which the log can still be read.

        A first segment that begins inside a transaction lacks that transaction's beginning: it is readable
        from the end of it on.
        """
        if not self.segments:
            return Lsn.parse(self.meta.start_lsn)
        if (self.records(self.segments[0])["kind"] == index.OPENED).any():
            for segment in self.segments:
                records = self.records(segment)
                units = records["end_lsn"][index.is_unit(records)]
                if len(units):
                    return Lsn(int(units[0]))
        return self.segments[0].after

    @property
    def end(self) -> Lsn:
        """
        The end of the last whole transaction that is durable, or a later point up to which there is nothing.

        Only the index says so: a new segment is named after a transaction whose end may not be synced yet.
        The first segment is the exception, for what came before it was durable when it was let go.
        """
        for segment in reversed(self.segments):
            last = int(self.records(segment)["end_lsn"].max(initial=0))
            if last:
                return Lsn(last)
        return self.segments[0].after if self.segments else Lsn.parse(self.meta.start_lsn)

    def is_arriving(self) -> bool:
        """Whether a part of the next transaction is in the log already."""
        if not self.segments:
            return False
        newest = self.segments[-1]
        try:
            return newest.data.stat().st_size > index.end_of_units(self.records(newest))
        except FileNotFoundError:  # cut away with its unfinished transaction
            return False

    def wait(self, timeout: float) -> bool:
        """Wait until the log has grown; gives False after ``timeout`` seconds without."""
        deadline = time.monotonic() + timeout
        pause = _POLL_FLOOR
        while not self._refresh():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 1.2, _POLL_CEILING)
        return True

    def next(
        self,
        after: Lsn,
        max_bytes: int,
        range_bytes: int = RANGE_BYTES,
        max_changes: int | None = None,
        until: Lsn | None = None,
    ) -> LogSlice | None:
        """
        The transactions that follow ``after``, at least one, cut by bytes or changes at a transaction's end.

        A transaction larger than the limit is a slice of its own, and one that changes the schema is a
        slice's last. None when there is nothing yet, or nothing that ends at or before ``until``.
        """
        limits = _Limits(max_bytes, max_changes or _NO_LIMIT, until or _NO_LIMIT)
        for look in range(_LOOKS):
            self._refresh()
            try:
                return self._next(after, limits, range_bytes)
            except FileNotFoundError:  # a segment that everybody has passed went while we looked at it
                self._forget()
            except SinkBehindLogError:  # perhaps only as it looked while old segments were being removed
                if look:
                    raise
                self._forget()
        raise LogError(
            f"segments of {self.directory} vanish while they are read", remedy="See who removes them"
        )

    def _next(self, after: Lsn, limits: _Limits, range_bytes: int) -> LogSlice | None:
        if after < self.first_lsn:
            raise SinkBehindLogError(
                f"changes from {after} to {self.first_lsn} are no longer in the change log {self.directory}",
                remedy=BEHIND_REMEDY,
                after=str(after),
                first=str(self.first_lsn),
            )
        place = self._locate(after)
        stop = self._stop(place, after, limits) if place else None
        return _Plan(self, place, stop, after, range_bytes).slice() if place and stop else None

    def arriving(self, after: Lsn) -> Arriving | None:
        """The transaction after ``after`` of which only a part is there yet; None when that is little."""
        try:
            place = self._locate(after)
            if place is None:
                return None
            segment = self.segments[place.segment]
            records = self.records(segment)
            if segment != self._active.segment:
                records = index.final_prefix(records)
            arriving = Arriving(segment, records, place.offset)
            return arriving if arriving.has_begun() else None
        except (BrokenOffError, FileNotFoundError):  # cut, or thrown away, while we looked
            return None

    def commit_time_after(self, after: Lsn) -> float | None:
        """When the first transaction after ``after`` was committed (seconds since 1970); None without one."""
        for segment in self.segments:
            records = self.records(segment)
            later = records[(records["kind"] == index.END) & (records["end_lsn"] > after)]
            if len(later):
                return int(later["commit_ts"][0]) / 1e6 + _PG_EPOCH
        return None

    def _locate(self, after: Lsn) -> _Place | None:
        """Where the first unit after ``after`` begins."""
        number = len(self.segments) - 1
        while number > 0 and self.segments[number].after >= after:
            number -= 1
        while number >= 0:
            records = self.records(self.segments[number])
            passed = np.flatnonzero(index.is_unit(records) & (records["end_lsn"] <= after))
            if len(passed):
                return _Place(number, int(records["offset"][passed[-1]]))
            if not (records["kind"] == index.OPENED).any():
                return _Place(number, 0)
            number -= 1  # the segment begins inside a transaction, which began in an earlier one
        if self.segments:
            raise FileNotFoundError  # whose segment has just gone: look again
        return None

    def _stop(self, place: _Place, after: Lsn, limits: _Limits) -> _Stop | None:
        """The last unit that still fits, or the first one."""
        taken = 0
        changes = 0
        best: _Stop | None = None
        is_last = False  # whether the transaction that is open where a segment ends is the last one
        for number in range(place.segment, len(self.segments)):
            segment = self.segments[number]
            records = self.records(segment)
            units = records[index.is_unit(records) & (records["end_lsn"] > after)]
            begin = place.offset if number == place.segment else 0
            schema = records["offset"][(records["kind"] == index.SCHEMA) & (records["offset"] >= begin)]
            allowed = int(np.searchsorted(units["end_lsn"], limits.until, "right"))
            if is_last:
                allowed = min(allowed, 1)
            elif len(schema):
                allowed = min(allowed, int(np.searchsorted(units["offset"], schema[0], "right")) + 1)
                is_last = True
            if len(units):
                sizes = units["offset"] - begin + taken
                counts = np.cumsum(units["seq"]) + changes
                fits = int(
                    min(
                        np.searchsorted(sizes, limits.bytes, "right"),
                        np.searchsorted(counts, limits.changes, "right"),
                    )
                )
                count = min(allowed, fits if best is not None else max(fits, 1))
                if count:
                    unit = units[count - 1]
                    changes = int(counts[count - 1])
                    best = _Stop(
                        number, int(unit["offset"]), Lsn(int(unit["end_lsn"])), int(sizes[count - 1]), changes
                    )
                if count < len(units):
                    break
            if best is not None and (taken >= limits.bytes or (is_last and count == allowed)):
                break
            taken += segment.data.stat().st_size - begin
        return best

    def records(self, segment: Segment) -> index.Records:
        """The final records of a segment."""
        if segment == self._active.segment:
            return self._active.records
        known = self._closed.get(segment)
        if known is not None:
            return known
        records = index.load(segment.index)
        if index.is_unit(self._active.records).any():  # else its end may be cut and written anew
            self._closed[segment] = records
            if len(self._closed) > _KEPT_INDEXES:
                self._closed.popitem(last=False)
        return records

    def _forget(self) -> None:
        """Look at everything anew."""
        self._modified = -1
        self._active = _Tail(None)
        self._closed.clear()
        self.segments = []

    def _refresh(self) -> bool:
        """Look for new records; gives whether there were any."""
        changed = self._active.refresh()
        modified = self.directory.stat().st_mtime_ns
        if modified != self._modified:
            self._modified = modified
            before = self.segments
            self.segments = [segment for segment in find_segments(self.directory) if segment.index.exists()]
            if self.segments != before:
                changed = True
                if self.segments and self.segments[-1] != self._active.segment:
                    self._active = _Tail(self.segments[-1])
                    self._active.refresh()
        return changed


class _Tail:
    """The final records of the segment that is being written: up to its last unit or watermark."""

    def __init__(self, segment: Segment | None) -> None:
        self.segment = segment
        self.records = np.empty(0, index.RECORD)
        self._stamp: tuple[int, int, int] | None = None

    def refresh(self) -> bool:
        """Read what was added; gives whether something was."""
        if self.segment is None:
            return False
        try:
            stat = self.segment.index.stat()
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            fresh = index.final_prefix(index.load_from(self.segment.index, len(self.records)))
        except FileNotFoundError:  # an unfinished transaction was cut away, and its segment with it
            return False
        if len(fresh) == 0:
            return False
        self.records = np.concatenate([self.records, fresh])
        return True


@dataclass(frozen=True, slots=True)
class _Limits:
    bytes: int
    changes: int
    until: int


@dataclass(frozen=True, slots=True)
class _Place:
    segment: int  # number in the reader's list
    offset: int


@dataclass(frozen=True, slots=True)
class _Stop:
    segment: int
    offset: int
    end_lsn: Lsn
    bytes: int
    changes: int


class _Plan:
    """The ranges of one slice."""

    def __init__(self, reader: LogReader, place: _Place, stop: _Stop, after: Lsn, range_bytes: int) -> None:
        self._reader = reader
        self._place = place
        self._stop = stop
        self._after = after
        self._range_bytes = range_bytes

    def slice(self) -> LogSlice:
        """Cut the bytes between place and stop into ranges."""
        ranges: list[LogRange] = []
        later_end = 0  # of the transaction that is open where the segment ends
        for number in range(self._stop.segment, self._place.segment - 1, -1):
            found = list(self._segment_ranges(number, later_end))
            ranges[:0] = found
            opened = found[0].opened if found else None
            later_end = opened.end_lsn if opened else 0
        return LogSlice(self._after, self._stop.end_lsn, tuple(ranges), self._stop.bytes, self._stop.changes)

    def _segment_ranges(self, number: int, later_end: int) -> list[LogRange]:
        segment = self._reader.segments[number]
        records = self._reader.records(segment)
        last = number == self._stop.segment
        begin = self._place.offset if number == self._place.segment else 0
        end = self._stop.offset if last else segment.data.stat().st_size
        opened_at = records[records["kind"] == index.OPENED]
        if begin == 0 and len(opened_at):
            begin = int(opened_at["offset"][0])
        places = cuts(records, begin, end, self._range_bytes)
        return [
            range_of(segment, records, start, stop, later_end)
            for start, stop in pairwise(places)
            if stop > start
        ]
