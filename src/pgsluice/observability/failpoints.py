"""
Named places where a test can kill the process: ``PGSLUICE_FAILPOINT=log.before_data_sync`` or ``…:3``.

The process ends by SIGKILL when it comes to the named place (for the third time), exactly as if the
machine had taken it away there. Without the variable a failpoint is a call of an empty function.
"""

from __future__ import annotations

import os
import signal
from itertools import count

_name, _, _times = os.environ.get("PGSLUICE_FAILPOINT", "").partition(":")
_passed = count(1)


def _armed(name: str) -> None:
    if name == _name and next(_passed) >= int(_times or 1):
        os.kill(os.getpid(), signal.SIGKILL)


def _off(name: str) -> None:
    """Do nothing: no failpoint is set."""


failpoint = _armed if _name else _off
