"""
What people ask of a pipeline, whether it is running or not: one small file per request.

The command that asks writes the file, the pipeline looks for it between batches and removes it when it is
done. What has begun is in the sink's own progress, so a file that is lost or seen twice does no harm.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUESTS: Final = "requests"


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """Copy a table of one sink anew."""

    sink: str
    schema: str
    table: str
    id: str = ""
    begun: bool = False
    replace: bool = False  # also rows that others may have written

    @property
    def qualified(self) -> str:
        """``schema.name``, for people."""
        return f"{self.schema}.{self.table}"


class Requests:
    """The requests of one pipeline, in its state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._directory = state_dir / REQUESTS
        self._seen = -1

    def ask(self, request: CopyRequest) -> CopyRequest:
        """Leave a request; the same one twice is one."""
        known = next((each for each in self.open() if _same(each, request)), None)
        if known is not None and not known.begun:
            return known
        asked = replace(request, id=secrets.token_hex(8))
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write(asked)
        return asked

    def open(self) -> Iterator[CopyRequest]:
        """Those that are not done."""
        for path in sorted(self._directory.glob("*.json")):
            try:
                yield CopyRequest(**json.loads(path.read_text(encoding="utf-8")))
            except FileNotFoundError:  # done meanwhile
                continue

    def changed(self) -> bool:
        """Whether there is something to look at since the last call; costs one look at the directory."""
        try:
            modified = self._directory.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        seen, self._seen = self._seen, modified
        return seen != modified

    def note_begun(self, request: CopyRequest) -> None:
        """Say that the pipeline has taken it up."""
        self._write(replace(request, begun=True))

    def done(self, request: CopyRequest) -> None:
        """Remove it."""
        self._path(request).unlink(missing_ok=True)

    def is_open(self, request: CopyRequest) -> bool:
        """Whether it is not done yet."""
        return self._path(request).exists()

    def _write(self, request: CopyRequest) -> None:
        path = self._path(request)
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(asdict(request), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)

    def _path(self, request: CopyRequest) -> Path:
        return self._directory / f"{request.id}.json"


def _same(one: CopyRequest, other: CopyRequest) -> bool:
    return (one.sink, one.qualified, one.replace) == (other.sink, other.qualified, other.replace)
