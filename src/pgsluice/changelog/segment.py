"""
Names and files of the change log.

A log is a directory: ``meta.json`` (what stream this is), segments ``<lsn>-<ordinal>.seg`` each with an
index ``.idx`` beside it, ``consumers/`` (how far each reader is), ``lock`` and ``listener.json``. A
segment is named by the end of the last whole transaction before it plus an ordinal: row LSNs go
backwards between transactions, and one transaction may span many segments.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.position import Lsn
from pgsluice.errors import LogFormatError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1  # of segments and index; an older one is upgraded, a newer one refused
_NAME = re.compile(r"([0-9A-F]{16})-([0-9]{8})\.seg")


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One segment file and its index."""

    after: Lsn  # end of the last whole transaction before the first byte
    ordinal: int  # counts segments of this log
    directory: Path

    @property
    def data(self) -> Path:
        """The frames."""
        return self.directory / f"{self.after:016X}-{self.ordinal:08d}.seg"

    @property
    def index(self) -> Path:
        """The records of :mod:`pgsluice.changelog.index`."""
        return self.data.with_suffix(".idx")


def segments(directory: Path) -> list[Segment]:
    """The segments of a log in their order."""
    found = []
    for path in directory.iterdir():
        match = _NAME.fullmatch(path.name)
        if match:
            found.append(Segment(Lsn(int(match[1], 16)), int(match[2]), directory))
    return sorted(found, key=lambda segment: segment.ordinal)


@dataclass(frozen=True, slots=True)
class LogMeta:
    """What stream a log holds. Kept in ``meta.json``."""

    system_id: str
    timeline: int
    slot: str
    publication: str
    start_lsn: str  # where the slot stood when the log was made
    format: int = FORMAT

    def with_timeline(self, timeline: int) -> LogMeta:
        """The same stream after a promotion."""
        return replace(self, timeline=timeline)


def read_meta(directory: Path) -> LogMeta | None:
    """The log's description, or None where there is no log."""
    path = directory / "meta.json"
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise LogFormatError(
            f"{path} is damaged", remedy="Remove the log directory and copy the data again"
        ) from exc
    if fields.get("format", 0) > FORMAT:
        raise LogFormatError(
            f"{path} was written by a newer pgsluice (format {fields['format']}, this one knows {FORMAT})",
            remedy="Use that version, or another state directory",
        )
    return LogMeta(**fields)


def write_meta(directory: Path, meta: LogMeta) -> None:
    """Keep the log's description, durably."""
    write_durably(directory / "meta.json", json.dumps(asdict(meta), indent=1).encode())


def write_durably(path: Path, content: bytes) -> None:
    """Replace a small file so that a crash leaves the old one or the new one."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with scratch.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    sync_directory(path.parent)


def write_whole(path: Path, text: str) -> None:
    """Replace a small file, of which readers see the old one or the new one; a power cut may empty it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(path)


def sync_directory(directory: Path) -> None:
    """Make names that were added to or removed from a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
