"""Watching processes while something is measured: their CPU seconds and their highest memory."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Final

import psutil

from bench.harness import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

_EVERY: Final = 0.5  # seconds
_FAMILIES_EVERY: Final = 2  # looks; finding descendants means to go through all processes of the machine
_LARGE: Final = 256 << 20  # bytes: to measure such a process means to walk through all its pages,
_LARGE_EVERY: Final = 4  # which stops it meanwhile, at the cost of what is measured; so not at every look


class Watch:
    """
    Samples processes from enter to exit.

    Args:
        processes: process ids by role, or what finds one that comes later; descendants are counted with it.
        alone: roles that are counted without their descendants.
    """

    def __init__(
        self, processes: Mapping[str, int | Callable[[], int | None]], *, alone: tuple[str, ...] = ()
    ) -> None:
        self._processes = processes
        self._alone = alone
        self._families: dict[str, list[psutil.Process]] = {}
        self._before: dict[int, float] = {}
        self._latest: dict[str, dict[int, float]] = {role: {} for role in processes}
        self._peaks = dict.fromkeys(processes, 0)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._find_families()
        for members in self._families.values():
            self._before |= {process.pid: _cpu(process) for process in members}
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._find_families()
        self._look()

    def usage(self) -> Usage:
        """What was seen so far."""
        cpu = {
            role: sum(seconds - self._before.get(pid, 0.0) for pid, seconds in seen.items())
            for role, seen in [(role, dict(seen)) for role, seen in self._latest.items()]  # it goes on
        }
        return Usage(cpu, dict(self._peaks))

    def _run(self) -> None:
        for number in itertools.count(1):
            if self._done.wait(_EVERY):
                return
            if number % _FAMILIES_EVERY == 0:
                self._find_families()
            self._look(large=number % _LARGE_EVERY == 0)

    def _find_families(self) -> None:
        for role, process in self._processes.items():
            pid = process if isinstance(process, int) else process()
            self._families[role] = [] if pid is None else family(pid, alone=role in self._alone)

    def _look(self, *, large: bool = True) -> None:
        for role, members in self._families.items():
            for process in members:
                if seconds := _cpu(process):
                    self._latest[role][process.pid] = seconds
            if large or not any(map(_is_large, members)):
                self._peaks[role] = max(self._peaks[role], sum(map(memory, members)))


def memory(process: psutil.Process) -> int:
    """A process's memory; what it shares with others is divided among them, where the system says so."""
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.uss))
    except psutil.Error:
        return 0


def _is_large(process: psutil.Process) -> bool:
    try:
        return int(process.memory_info().rss) >= _LARGE
    except psutil.Error:
        return False


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def family(pid: int, *, alone: bool = False) -> list[psutil.Process]:
    """A process and its descendants; nobody when it has ended."""
    try:
        root = psutil.Process(pid)
        return [root] if alone else [root, *root.children(recursive=True)]
    except psutil.Error:
        return []
