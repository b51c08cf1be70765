"""
How many rows without identity a sink has met, in a file of the state directory: for ``status``, which looks
from outside.

Counted are those of batches that the sink has taken, over all runs. The file is not synced: a crash of the
machine may take some counts with it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pgsluice.changelog.segment import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COUNTS: Final = "without_identity"


@dataclass(frozen=True, slots=True)
class Unidentified:
    """Rows without identity of one reading."""

    rows: Mapping[str, int]  # by table
    dropped: bool  # or they went on


@dataclass(frozen=True, slots=True)
class UnidentifiedTable:
    """A table without identity, and what became of its rows."""

    sink: str
    table: str
    passed: int = 0
    dropped: int = 0


class UnidentifiedNote:
    """The counts of one sink."""

    def __init__(self, state_dir: Path, sink: str) -> None:
        self._path = counts_path(state_dir, sink)
        self._sink = sink
        self.tables = {each.table: each for each in _read(self._path)}

    def add(self, found: Unidentified | None) -> None:
        """A batch was taken; counts that have no place on the disk are in this process alone."""
        if found is None or not found.rows:
            return
        for table, rows in found.rows.items():
            known = self.tables.get(table, UnidentifiedTable(self._sink, table))
            passed, dropped = (0, rows) if found.dropped else (rows, 0)
            self.tables[table] = UnidentifiedTable(
                self._sink, table, known.passed + passed, known.dropped + dropped
            )
        with contextlib.suppress(OSError):
            write_whole(self._path, json.dumps([asdict(each) for each in self.tables.values()]))


def counts_path(state_dir: Path, sink: str) -> Path:
    """Where the counts of a sink are."""
    return state_dir / COUNTS / f"{quote(sink, safe='')}.json"


def read_unidentified(state_dir: Path) -> list[UnidentifiedTable]:
    """What was counted by all sinks."""
    paths = sorted((state_dir / COUNTS).glob("*.json"))
    return [each for path in paths for each in sorted(_read(path), key=lambda each: each.table)]


def _read(path: Path) -> list[UnidentifiedTable]:
    try:
        return [UnidentifiedTable(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError):  # not there, or emptied by a power cut
        return []
