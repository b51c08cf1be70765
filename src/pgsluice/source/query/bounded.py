"""A reader that can be told where to stop: a micro-batch has a fixed end, however far the log has grown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.changelog import index
from pgsluice.changelog.plan import RANGE_BYTES
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader

if TYPE_CHECKING:
    from pgsluice.changelog.plan import LogSlice
    from pgsluice.changelog.segment import Segment

UNLIMITED: Final = 1 << 62
NO_END: Final = Lsn(UNLIMITED)


class BoundedReader(LogReader):
    """A log that may be read as if it ended earlier."""

    _until = NO_END

    def between(
        self,
        after: Lsn,
        until: Lsn = NO_END,
        *,
        max_bytes: int = UNLIMITED,
        max_changes: int | None = None,
        range_bytes: int = RANGE_BYTES,
    ) -> LogSlice | None:
        """The same as :meth:`next`, but nothing of what ends after ``until``."""
        self._until = until
        try:
            return self.next(after, max_bytes, range_bytes, max_changes)
        finally:
            self._until = NO_END

    def records(self, segment: Segment) -> index.Records:
        """The final records of a segment, up to the end of reading."""
        records = super().records(segment)
        if self._until == NO_END:
            return records
        later = np.flatnonzero(index.is_unit(records) & (records["end_lsn"] > self._until))
        return records[: later[0]] if len(later) else records
