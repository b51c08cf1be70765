"""
One listener at a time: a lock held by the operating system, with the owner's name and an epoch in it.

The epoch grows with every owner. A process that was thought dead (a stalled host on a shared mount,
where a lock may be lost) finds another epoch before it next writes, and stops.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from typing import TYPE_CHECKING

from pgsluice.errors import LogLockedError

if TYPE_CHECKING:
    from pathlib import Path


class LogLock:
    """The right to write a log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1
        self.epoch = 0

    def acquire(self, wait: float = 0.0) -> None:
        """Take the lock; after ``wait`` seconds of trying, say who holds it."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                owner = _owner(handle)
                os.close(handle)
                raise LogLockedError(
                    f"the change log {self._path.parent} is in use by process {owner.get('pid', '?')} "
                    f"on {owner.get('host', '?')}",
                    remedy="Stop that run first, or give this one another --name: a pipeline of its own",
                    pid=owner.get("pid"),
                ) from None
        self.epoch = _epoch(handle) + 1
        self._handle = handle
        self._write({"pid": os.getpid(), "host": socket.gethostname(), "epoch": self.epoch})

    def check(self) -> None:
        """Raise if another owner has come since."""
        found = _epoch(self._handle)
        if found != self.epoch:
            raise LogLockedError(
                f"another process has taken over the change log {self._path.parent} "
                f"(epoch {found}, ours {self.epoch})",
                remedy="Only one run may write a log; stop one of them",
            )

    def release(self) -> None:
        """Give the lock back."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _write(self, owner: dict[str, object]) -> None:
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(owner).encode(), 0)
        os.fsync(self._handle)


def _owner(handle: int) -> dict[str, object]:
    with contextlib.suppress(ValueError):
        found = json.loads(os.pread(handle, 4096, 0) or b"{}")
        if isinstance(found, dict):
            return found
    return {}


def _epoch(handle: int) -> int:
    return int(str(_owner(handle).get("epoch", 0)))


def holder(path: Path) -> int | None:
    """The process id of the lock's holder, or None while nobody holds it."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = _owner(handle).get("pid")
        return int(str(pid)) if pid is not None else None
    finally:
        os.close(handle)
    return None
