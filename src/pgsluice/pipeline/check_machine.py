"""Checks of this machine: what a run needs here, before any server is asked. Neighbour of ``machine.py``."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING, Final

from pgsluice.errors import MachineError
from pgsluice.pipeline.machine import OLDEST_JAVA, find_java, java_major
from pgsluice.source.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OLDEST_PYTHON: Final = (3, 11)
LEAST_SPACE: Final = 1 << 30  # less than this is soon full of log
_INSTALL_JAVA = "Install openjdk-17-jre-headless, or point JAVA_HOME at a newer one"


def check_machine(state_dir: Path) -> list[Finding]:
    """What this machine lacks, worst first; what it has is said as info."""
    found = [*_python(), *_java(), *_pyspark(), *_space(state_dir)]
    return sorted(found, key=lambda finding: finding.severity != "error")


def _python() -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield Finding("python", "error", f"this is Python {version}", "Use Python 3.11 or newer")
    else:
        yield Finding("python", "info", f"Python {version}", fields={"version": version})


def _java() -> Iterator[Finding]:
    try:
        java = find_java()
        major = java_major(java)
    except MachineError as exc:
        yield Finding("java", "error", exc.message, exc.remedy)
        return
    fields = {"path": java, "version": major}
    if major < OLDEST_JAVA:
        words = f"{java} is Java {major or 'of an unknown version'}, Spark needs {OLDEST_JAVA} or newer"
        yield Finding("java", "error", words, _INSTALL_JAVA, fields)
    else:
        yield Finding("java", "info", f"Java {major} ({java})", fields=fields)


def _pyspark() -> Iterator[Finding]:
    if importlib.util.find_spec("pyspark") is None:
        yield Finding("pyspark", "error", "PySpark is not installed", "pip install 'pyspark>=4.1,<4.4'")
        return
    from pyspark import __version__

    yield Finding("pyspark", "info", f"PySpark {__version__}", fields={"version": __version__})


def _space(state_dir: Path) -> Iterator[Finding]:
    """Room and the right to write where the state directory is or will be."""
    directory = state_dir.expanduser()
    place = next(parent for parent in (directory, *directory.parents) if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield Finding(
            "state-directory",
            "error",
            f"{place} can't be written to",
            "Choose another --state-dir, or mend its rights",
        )
        return
    free = shutil.disk_usage(place).free
    words, fields = f"{free / (1 << 30):.1f} GiB free in {place}", {"free": free, "path": str(place)}
    if free < LEAST_SPACE:
        yield Finding("space", "error", f"only {words}", "Free some, or choose another --state-dir", fields)
    else:
        yield Finding("space", "info", words, fields=fields)
