"""Leaving nothing behind on this machine: the log of a pipeline that is being destroyed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pgsluice.changelog.segment import read_meta
from pgsluice.errors import RunActiveError
from pgsluice.source.process import listening_process

if TYPE_CHECKING:
    from pathlib import Path


def require_no_run(log_dir: Path) -> None:
    """Raise while a listener owns the log."""
    pid = listening_process(log_dir)
    if pid is not None:
        raise RunActiveError(
            f"process {pid} is writing the change log {log_dir}",
            remedy="Stop that run first, then try again",
            pid=pid,
        )


def remove_log(log_dir: Path, *, dry_run: bool) -> list[str]:
    """Remove a log; gives what was done, in words. A directory that is no log of ours stays."""
    if read_meta(log_dir) is None:
        return []
    if not dry_run:
        shutil.rmtree(log_dir)
    return [f"remove the change log {log_dir}"]
