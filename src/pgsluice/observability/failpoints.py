"""
Places where a test may kill the process, to prove what a crash leaves behind.

``PGSLUICE_FAILPOINT=sink.before_commit`` makes the process kill itself when it gets there for the first
time, ``sink.before_commit:3`` the third time. The variable is read once, when this module is loaded;
without it a failpoint is one comparison. SIGKILL, because nothing may be tidied up on the way out.
"""

from __future__ import annotations

import os
import signal
from typing import Final

VARIABLE: Final = "PGSLUICE_FAILPOINT"


def _parse(setting: str) -> tuple[str, int]:
    name, _, count = setting.partition(":")
    return name, int(count or 1)


_armed, _passes_left = _parse(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Die here, if the environment says so."""
    if _armed == name:
        _pass()


def _pass() -> None:
    global _passes_left
    _passes_left -= 1
    if _passes_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
