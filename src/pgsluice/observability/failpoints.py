"""
Places where a test may kill the process, to prove what a crash leaves behind.

``PGSLUICE_FAILPOINT=sink.before_commit`` makes the process kill itself when it gets there for the first
time, ``sink.before_commit:3`` the third time, and ``task.after_write@/tmp/mark`` only where the file is not
there yet, which it then makes: one process of many dies, once. The variable is read once, when this module
is loaded; without it a failpoint is one comparison. SIGKILL, because nothing may be tidied up on the way out.
"""

from __future__ import annotations

import os
import signal
from typing import Final, NamedTuple

VARIABLE: Final = "PGSLUICE_FAILPOINT"


class _Setting(NamedTuple):
    name: str
    passes: int
    mark: str  # a file that says that somebody died already; empty for none


def _parse(setting: str) -> _Setting:
    place, _, mark = setting.partition("@")
    name, _, count = place.partition(":")
    return _Setting(name, int(count or 1), mark)


_armed, _passes_left, _mark = _parse(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Die here, if the environment says so."""
    if _armed == name:
        _pass()


def _pass() -> None:
    global _passes_left
    _passes_left -= 1
    if _passes_left == 0 and _is_first():
        os.kill(os.getpid(), signal.SIGKILL)


def _is_first() -> bool:
    if not _mark:
        return True
    try:
        os.close(os.open(_mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
