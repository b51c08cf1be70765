"""Whether a log still holds what a new sink needs: everything since its slot was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.changelog.position import Lsn
from pgsluice.errors import SinkBehindLogError, SlotAheadOfLogError

if TYPE_CHECKING:
    from pgsluice.changelog.reader import LogReader


def require_all_since(slot_lsn: Lsn, reader: LogReader, sink: str) -> None:
    """
    Raise when something is missing.

    Only asked for a target without progress; the progress of others tells whether they lack something.
    """
    began, first = Lsn.parse(reader.meta.start_lsn), reader.first_lsn
    if began <= slot_lsn < first:
        raise SinkBehindLogError(
            f"target {sink!r} is new or was emptied, but the changes from {slot_lsn} to "
            f"{first} are no longer in the change log {reader.directory}",
            remedy="Restore the target, or start anew: pgsluice destroy, then init",
            after=str(slot_lsn),
            first=str(first),
        )
    if began > slot_lsn:
        raise SlotAheadOfLogError(
            f"the slot was made at {slot_lsn}, but the log in {reader.directory} begins at {began}: "
            "an earlier log is missing, and the changes that it held",
            remedy="Put the log back; or start anew: pgsluice destroy, then init",
            first=str(slot_lsn),
            last=str(began),
        )
