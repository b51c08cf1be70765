"""
How far a copy is, table by table: in a file that ``status`` reads, since it looks from outside.

Only for people to see. What is copied is in the sink's own progress.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pgsluice.changelog.segment import write_whole
from pgsluice.source.snapshot.ranges import CopyRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pgsluice.pipeline.copy_plan import CopyBatch

REPORTS: Final = "copies"


@dataclass(slots=True)
class TableReport:
    """How far one table is."""

    table: str
    bytes: int = 0  # on the source's disk, about
    copied_bytes: int = 0
    ranges: int = 0
    copied_ranges: int = 0
    rows: int = 0


@dataclass(slots=True)
class SinkReport:
    """How far the copy into one sink is."""

    sink: str
    position: str  # of the point that tables are copied at
    tables: list[TableReport] = field(default_factory=list)
    finished: bool = False
    seconds: float = 0.0  # of work so far
    updated: float = 0.0  # seconds since 1970

    @property
    def bytes(self) -> int:
        """All that is to be copied at this point."""
        return sum(table.bytes for table in self.tables)

    @property
    def copied_bytes(self) -> int:
        """What is copied of it."""
        return sum(table.copied_bytes for table in self.tables)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes, if it goes on as it did; None before anything is copied."""
        if self.finished or not self.copied_bytes:
            return 0.0 if self.finished else None
        return self.seconds * (self.bytes - self.copied_bytes) / self.copied_bytes

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "seconds_left": self.seconds_left}


class CopyReport:
    """Written by the copy into one sink."""

    def __init__(self, state_dir: Path, sink: str) -> None:
        self._path = state_dir / REPORTS / f"{sink}.json"
        self._began = time.monotonic()
        self._by_version: dict[int, TableReport] = {}
        self.facts = SinkReport(sink, "")

    def begin(self, position: str, batches: Sequence[CopyBatch]) -> None:
        """The plan of a point."""
        self._began = time.monotonic()
        self._by_version = {}
        for batch in batches:
            for part in batch.parts:
                table = self._table(batch, part.about.relation)
                table.bytes += part.bytes
                table.ranges += isinstance(part, CopyRange)
        self.facts = SinkReport(self.facts.sink, position, list(self._by_version.values()))
        self._write()

    def applied(self, batch: CopyBatch, rows: Mapping[int, int]) -> None:
        """A batch is in the target."""
        for part in batch.parts:
            table = self._table(batch, part.about.relation)
            table.copied_bytes += part.bytes
            table.copied_ranges += isinstance(part, CopyRange)
        for version, count in rows.items():
            self._table(batch, version).rows += count
        self._write()

    def finish(self) -> None:
        """Everything is copied."""
        self.facts.finished = True
        self._write()

    def _table(self, batch: CopyBatch, version: int) -> TableReport:
        return self._by_version.setdefault(version, TableReport(batch.versions[version].qualified))

    def _write(self) -> None:
        self.facts.seconds = time.monotonic() - self._began
        self.facts.updated = time.time()
        write_whole(self._path, json.dumps(asdict(self.facts)))


def read_reports(state_dir: Path) -> list[SinkReport]:
    """What copies have said last."""
    found = []
    for path in sorted((state_dir / REPORTS).glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        tables = [TableReport(**table) for table in fields.pop("tables")]
        found.append(SinkReport(**fields, tables=tables))
    return found
