"""What a sink's loop has done so far, for those who watch it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgsluice.changelog.position import Lsn
from pgsluice.units import readable_size

if TYPE_CHECKING:
    from pgsluice.pipeline.copy_report import SinkReport
    from pgsluice.pipeline.trouble import TroubleNote
    from pgsluice.pipeline.unidentified import Unidentified, UnidentifiedNote


@dataclass(slots=True)
class LoopFacts:
    """Read by others, written by the loop alone."""

    position: Lsn = field(default_factory=lambda: Lsn(0))
    batches: int = 0
    changes: int = 0
    schema_changes: int = 0  # transactions that had some
    early: int = 0  # transactions that were applied while they came in
    retrying: str = ""  # why, while the target can't take a batch
    note: TroubleNote | None = None  # where others see that, too
    copying: SinkReport | None = None  # how far, while tables are copied
    ended: bool = False  # nothing more comes of it
    unidentified: UnidentifiedNote | None = None  # rows of tables without identity, for others to see

    def count_unidentified(self, *found: Unidentified | None) -> None:
        """A batch was taken that had such rows."""
        for each in found:
            if self.unidentified is not None:
                self.unidentified.add(each)

    def try_again(self, error: Exception) -> None:
        """The target can't take a batch now."""
        self.retrying = str(error)
        if self.note is not None:
            self.note.write(error, ended=False)

    def go_on(self) -> None:
        """It has taken a batch."""
        self.retrying = ""
        if self.note is not None:
            self.note.clear()

    @property
    def shown_position(self) -> str:
        """Where it stands, or where the point is that it is copied at."""
        if self.position:
            return str(self.position)
        return "new" if self.copying is None else self.copying.position

    @property
    def state(self) -> str:
        """What it does now, for people."""
        if self.ended:
            return "done"
        if self.retrying:
            return f"retrying: {self.retrying}"
        if self.copying is None:
            return "running"
        done, size = self.copying.copied_bytes, self.copying.bytes
        return f"copying tables, {100 * done // max(size, 1)} % of {readable_size(size)}"
