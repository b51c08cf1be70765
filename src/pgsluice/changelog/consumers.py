"""
How far each reader of a log is, so that segments go only when all have passed.

One small file per consumer in the log's ``consumers/``; written by the reader, read by the listener.
This is what may be thrown away, never what is applied: a sink's progress is in its own target.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.position import Lsn
from pgsluice.changelog.segment import sync_directory

if TYPE_CHECKING:
    from pathlib import Path


_FILE_BYTES: Final = 512  # one size for all, so that a shorter text never leaves the end of a longer one


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of the log."""

    name: str
    lsn: Lsn  # everything up to here may go
    seen: float  # when it last said so (seconds since 1970)
    durable: bool  # whether lsn is kept by the target itself, so that the slot may follow it


class Consumers:
    """The consumers of one log."""

    def __init__(self, log: Path) -> None:
        self._directory = log / "consumers"

    def release(self, name: str, lsn: Lsn, *, durable: bool = True, synced: bool = False) -> None:
        """
        Say that ``name`` no longer needs anything up to ``lsn``.

        Written in place, so that it works on a full disk too, which only this can help. Not synced: after
        a crash an older value only keeps segments longer. ``synced`` is for one who speaks up for the first
        time about what others have passed: its file must not be lost.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        said = json.dumps({"name": name, "lsn": str(lsn), "seen": time.time(), "durable": durable})
        handle = os.open(self._path(name), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(handle, said.encode().ljust(_FILE_BYTES), 0)
            if synced:
                os.fsync(handle)
        finally:
            os.close(handle)
        if synced:
            sync_directory(self._directory)

    def drop(self, name: str) -> None:
        """Forget a consumer: it holds nothing back any more."""
        self._path(name).unlink(missing_ok=True)

    def all(self) -> list[Consumer]:
        """Every consumer that has said something."""
        paths = sorted(self._directory.glob("*.json")) if self._directory.is_dir() else []
        return [consumer for consumer in map(_read, paths) if consumer is not None]

    def _path(self, name: str) -> Path:
        return self._directory / (re.sub(r"[^A-Za-z0-9_-]", lambda c: f"%{ord(c[0]):x}", name) + ".json")


def _read(path: Path) -> Consumer | None:
    try:
        fields = json.loads(path.read_text())
        return Consumer(fields["name"], Lsn.parse(fields["lsn"]), fields["seen"], fields["durable"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError):
        # Torn, by a power cut or just now: it holds everything until its reader speaks again.
        return Consumer(path.stem, Lsn(0), path.stat().st_mtime, durable=True)
