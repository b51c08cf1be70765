"""
A transaction on its way into the log, read before its end is there.

Who can roll back may begin with it at once, and is done soon after it has come in whole. Until then nothing
that was read counts: when the listener loses its connection, the beginning is cut away and comes again,
perhaps in other places. A writer that cuts leaves a record of it where the cut is, so the index tells.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.changelog import index
from pgsluice.changelog.plan import RANGE_BYTES, range_of
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.segment import segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgsluice.changelog.plan import LogRange
    from pgsluice.changelog.segment import Segment

_LOOK_SECONDS: Final = 0.01


class BrokenOffError(Exception):
    """The transaction does not go on as it began: nothing that was read of it counts."""


class Arriving:
    """The first unit after a place, whole or not."""

    def __init__(self, segment: Segment, final: index.Records, offset: int) -> None:
        self._believed = [_Believed(segment, final)]
        self._at = offset
        self.end: Lsn | None = None  # known when it is whole
        self.changes = 0  # the same

    def has_begun(self) -> bool:
        """Whether enough of it is there to begin with."""
        believed = self._believed[-1]
        believed.refresh()
        records = believed.other
        if self._changes_schema(records):
            return False
        is_mark = (records["kind"] == index.MARK) & (records["offset"] > self._at)
        return bool(is_mark.any()) or self._following() is not None

    def _changes_schema(self, records: index.Records) -> bool:
        """Whether the schema is changed in what follows: that is applied in one go with all around it."""
        return bool(((records["kind"] == index.SCHEMA) & (records["offset"] >= self._at)).any())

    def ranges(self, go_on: Callable[[], bool]) -> Iterator[LogRange]:
        """
        The ranges as they come, up to its end.

        ``go_on`` is asked while nothing comes, and tells whether to wait. Raises BrokenOffError unless what
        was given out is what the log holds of the transaction in the end.
        """
        while self.end is None:
            found = self._next()
            if found is not None:
                yield found
            elif self.end is None:
                if not go_on():
                    raise BrokenOffError
                time.sleep(_LOOK_SECONDS)
        *closed, last = self._believed
        for believed in closed:
            believed.require_same(closed=True)
        last.require_same()

    def _next(self) -> LogRange | None:
        following = self._following()  # before the records: when it is there, these are all
        current = self._believed[-1]
        records = current.refresh()
        start = self._at
        if self._changes_schema(records):
            raise BrokenOffError
        later = records[records["offset"] > start]
        is_far = later["offset"] >= start + RANGE_BYTES
        stops = later[index.is_unit(later) | ((later["kind"] == index.MARK) & is_far)]
        if len(stops):
            stop = stops[0]
            self._at = int(stop["offset"])
            if stop["kind"] != index.MARK:
                self.end, self.changes = Lsn(int(stop["end_lsn"])), int(stop["seq"])
            return range_of(current.segment, records, start, self._at, int(stop["commit_lsn"]))
        if following is None:
            return None
        records_after = following.refresh()
        opened = records_after[records_after["kind"] == index.OPENED][0]
        self._believed.append(following)
        self._at = int(opened["offset"])
        size = current.segment.data.stat().st_size
        rest = range_of(current.segment, records, start, size, int(opened["commit_lsn"]))
        return rest if size > start else None

    def _following(self) -> _Believed | None:
        """The next segment, once its index says that it begins inside of the transaction, and is on disk."""
        current = self._believed[-1].segment
        for segment in segments(current.directory):
            if segment.ordinal == current.ordinal + 1 and segment.index.exists():
                following = _Believed(segment, np.empty(0, index.RECORD))
                return following if (following.refresh()["kind"] == index.OPENED).any() else None
        return None


class _Believed:
    """What the index of a segment said. Its final records can't be cut, the others can."""

    def __init__(self, segment: Segment, final: index.Records) -> None:
        self.segment = segment
        self._final = final
        self._all = final
        self.other = final[:0]
        self._stamp: tuple[int, int] | None = None

    def refresh(self) -> index.Records:
        """All records, with those that were added since."""
        try:
            stat = self.segment.index.stat()
            if (stamp := (stat.st_size, stat.st_mtime_ns)) != self._stamp:
                self._stamp, self.other = stamp, self._read()
                self._all = np.concatenate([self._final, self.other]) if len(self.other) else self._final
        except FileNotFoundError as exc:
            raise BrokenOffError from exc
        return self._all

    def require_same(self, *, closed: bool = False) -> None:
        """Raise unless the index still says what was believed; and no more, where it was ``closed``."""
        now = self._read()
        if closed and len(now) != len(self.other):
            raise BrokenOffError

    def _read(self) -> index.Records:
        """The other records as they are now; what was believed must be among them."""
        now = index.load_from(self.segment.index, len(self._final))
        if now[: len(self.other)].tobytes() != self.other.tobytes():
            raise BrokenOffError
        return now
