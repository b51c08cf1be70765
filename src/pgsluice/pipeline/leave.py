"""Leaving nothing behind on this machine: the log of a pipeline, or what it keeps for one target."""

from __future__ import annotations

import shutil
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.segment import read_meta
from pgsluice.errors import ConfigError, RunActiveError
from pgsluice.pipeline.anew import beside_name
from pgsluice.pipeline.copy_report import REPORTS
from pgsluice.pipeline.letters.desk import is_letters_name, letters_name
from pgsluice.pipeline.remembered import PROGRESS, progress_path
from pgsluice.pipeline.unidentified import COUNTS, counts_path
from pgsluice.source.process import listening_process
from pgsluice.state.database import NAME
from pgsluice.state.dead_letter import LetterBook
from pgsluice.state.requests import REQUESTS

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.changelog.position import Lsn
    from pgsluice.source.uninstall import SlotAddress

_IN_USE_SECONDS: Final = 60.0  # a sink of a run speaks at least every ten


def require_no_run(log_dir: Path) -> None:
    """Raise while a listener owns the log."""
    pid = listening_process(log_dir)
    if pid is not None:
        raise RunActiveError(
            f"process {pid} is writing the change log {log_dir}",
            remedy="Stop that run first, then try again",
            pid=pid,
        )


def forget_target(log_dir: Path, state_dir: Path, name: str) -> Lsn:
    """
    Keep nothing of the log for a target any more; gives where it stood.

    A target that a run is writing to is refused: it would say at its next batch what it needs. So is one with
    open dead letters, whose rows would be missing for good if it came back.
    """
    consumers = Consumers(log_dir)
    known = {each.name: each for each in consumers.all() if not is_letters_name(each.name)}
    if name not in known:
        raise ConfigError(
            f"the change log {log_dir} is kept for no target named {name!r}",
            remedy=f"Name one of: {', '.join(known) or 'there is none'}",
        )
    pid = listening_process(log_dir)
    if pid is not None and time.time() - known[name].seen < _IN_USE_SECONDS:
        raise RunActiveError(
            f"target {name!r} is in use by the run of process {pid}",
            remedy="Take it out of the configuration and start the run again, or stop it; then try again",
            pid=pid,
        )
    with closing(LetterBook(state_dir)) as book:
        if letters := book.letters(name):
            raise ConfigError(
                f"target {name!r} has {len(letters)} open dead letters: rows that it does not have",
                remedy="Replay or discard them first: pgsluice dlq list",
            )
    for each in (name, beside_name(name), letters_name(name)):
        consumers.drop(each)
    for path in (progress_path(state_dir, name), counts_path(state_dir, name)):
        path.unlink(missing_ok=True)
    return known[name].lsn


def remove_log(log_dir: Path, state_dir: Path, slot: SlotAddress, *, dry_run: bool) -> list[str]:
    """
    Remove the log of a slot, and what its pipeline wrote beside it; gives what was done, in words.

    A directory that is no such log stays, and so does whatever others have put into the state directory.
    """
    meta = read_meta(log_dir)
    if meta is None:
        return []
    if (meta.system_id, meta.slot) != (slot.system_id, slot.name):
        return [f"leave the change log {log_dir}, which was filled from slot {meta.slot} of another pipeline"]
    letters = sorted(state_dir.glob(f"{NAME}*"))  # with what SQLite has beside the file
    if not dry_run:
        shutil.rmtree(log_dir)
        for file in letters:
            file.unlink()
        for own in (PROGRESS, REPORTS, REQUESTS, COUNTS):
            shutil.rmtree(state_dir / own, ignore_errors=True)
        with suppress(OSError):  # not empty, or not there
            state_dir.rmdir()
    done = [f"remove the change log {log_dir}"]
    return [*done, f"remove the dead letters in {state_dir / NAME}"] if letters else done
