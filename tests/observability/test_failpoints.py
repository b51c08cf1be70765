"""Failpoints kill when they are told to, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
from pgsluice.observability.failpoints import failpoint
for number in range(5):
    failpoint("here")
    print(number, flush=True)
    failpoint("there")
"""


@pytest.mark.parametrize(
    ("setting", "printed", "code"),
    [
        (None, "01234", 0),
        ("elsewhere", "01234", 0),
        ("here", "", -signal.SIGKILL),
        ("there", "0", -signal.SIGKILL),
        ("here:3", "01", -signal.SIGKILL),
        ("here:9", "01234", 0),
    ],
)
def test_failpoint(setting: str | None, printed: str, code: int):
    """The process dies at the named place, at the pass that was asked for."""
    environment = {name: value for name, value in os.environ.items() if name != "PGSLUICE_FAILPOINT"}
    if setting is not None:
        environment["PGSLUICE_FAILPOINT"] = setting
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout.replace("\n", ""), done.returncode) == (printed, code)
