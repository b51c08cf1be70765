"""
What keeps a sink from going on, in a file of the state directory: for ``status``, which looks from outside.

It is there while a batch is tried again and again, and after a loop has ended with an error; the next batch
that is applied removes it.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.segment import write_whole
from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    from pathlib import Path

_DIRECTORY: Final = "trouble"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a sink does not go on."""

    sink: str
    code: str
    message: str
    remedy: str
    ended: bool  # whether its loop has given up, or tries again
    at: float  # seconds since 1970


class TroubleNote:
    """The file of one sink."""

    def __init__(self, state_dir: Path, sink: str) -> None:
        self._path = state_dir / _DIRECTORY / f"{sink}.json"
        self._sink = sink
        self._noted = self._path.exists()

    def write(self, error: BaseException, *, ended: bool) -> None:
        """Note an error; one that has no place on the disk is in the run's own lines."""
        if isinstance(error, SluiceError):
            trouble = Trouble(
                self._sink, error.code, error.message, error.remedy, ended=ended, at=time.time()
            )
            with contextlib.suppress(OSError):
                write_whole(self._path, json.dumps(asdict(trouble)))
                self._noted = True

    def clear(self) -> None:
        """It is over."""
        if self._noted:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
                self._noted = False


def read_troubles(state_dir: Path) -> list[Trouble]:
    """What was noted of all sinks."""
    found = []
    for path in sorted((state_dir / _DIRECTORY).glob("*.json")):
        with contextlib.suppress(FileNotFoundError):  # it is over just now
            found.append(Trouble(**json.loads(path.read_text(encoding="utf-8"))))
    return found
