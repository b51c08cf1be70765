"""
Progress for a sink that can't keep it: lines on a terminal are gone once they are written.

A file of the state directory has the token of the last batch that was written. It follows the batch, so what
was written just before a crash is written again: at least once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pgsluice.changelog.segment import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.sinks.base import Batch, Sink, SinkContext

PROGRESS: Final = "progress"


class Remembered:
    """A sink that keeps no progress, and the file that does."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink = sink
        self._name = name
        self._path: Path

    def __getattr__(self, name: str) -> Any:
        """What else the sink can."""
        return getattr(self._sink, name)

    def open(self, context: SinkContext) -> str | None:
        """Open the sink; gives what the file has."""
        self._path = progress_path(context.state_dir, self._name)
        self._sink.open(context)
        try:
            return self._path.read_text(encoding="utf-8") or None  # empty after a power cut
        except FileNotFoundError:
            return None

    def apply(self, batch: Batch) -> None:
        """Write, then remember."""
        self._sink.apply(batch)
        write_whole(self._path, batch.end)  # not synced: an older one means more lines again

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()


def with_progress(sink: Sink, name: str) -> Sink:
    """The sink itself, if it keeps its progress."""
    return sink if getattr(sink, "keeps_progress", True) else Remembered(sink, name)


def progress_path(state_dir: Path, name: str) -> Path:
    """Where the progress of a sink is remembered."""
    return state_dir / PROGRESS / quote(name, safe="")
