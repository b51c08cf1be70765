"""
Other modifiers for a pipeline that runs: asked for by a signal, checked, and taken from the next batch on.

The run says in its state directory which process it is and what became of the last request; the command that
asks reads it there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.errors import SluiceError
from pgsluice.source.process import listening_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgsluice.modifiers.chain import Chain

logger = structlog.get_logger(__name__)

_RUN: Final = "run.json"


@dataclass(frozen=True, slots=True)
class RunState:
    """What a run says of itself."""

    pid: int
    reloads: int = 0  # requests that were answered
    problem: str | None = None  # why the last one was refused


def read_run(state_dir: Path, log_dir: Path) -> RunState | None:
    """
    The run of a state directory; None when there is none.

    What a run left that was killed is not believed: its number may be another process's by now. So it has to
    be the parent of the listener that holds the log.
    """
    try:
        state = RunState(**json.loads((state_dir / _RUN).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    listener = listening_process(log_dir)
    return state if listener is not None and _parent_of(listener) == state.pid else None


def _parent_of(pid: int) -> int | None:
    ps = shutil.which("ps")
    if ps is None:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])
    found = subprocess.run([ps, "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(found.stdout) if found.stdout.strip() else None


class Reloading:
    """The requests of one run, and the answers."""

    def __init__(self, state_dir: Path, chain: Chain, load: Callable[[], Chain] | None) -> None:
        self._path = state_dir / _RUN
        self._chain = chain
        self._load = load
        self._asked = threading.Event()
        self._reloads = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While this process is the one to ask."""
        self._write(None)
        try:
            yield
        finally:
            self._path.unlink(missing_ok=True)

    def ask(self) -> None:
        """Safe in a signal handler."""
        self._asked.set()

    def tend(self) -> None:
        """Answer, if somebody has asked: all of the new modifiers, or none."""
        if not self._asked.is_set():
            return
        self._asked.clear()
        problem = None
        try:
            if self._load is not None:
                self._chain.become(self._load())
            logger.info("modifiers reloaded: they hold from the next batch on")
        except SluiceError as error:
            problem = str(error)
            logger.warning("the new modifiers are refused, and the old ones stay", reason=problem)
        self._reloads += 1
        self._write(problem)

    def _write(self, problem: str | None) -> None:
        fresh = self._path.with_suffix(f".{time.monotonic_ns()}")
        with open(fresh, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump(asdict(RunState(os.getpid(), self._reloads, problem)), file)
        fresh.replace(self._path)
