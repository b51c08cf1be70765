"""What a run needs of this machine: Java for Spark, PySpark, and space for the log."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Final

from pgsluice.errors import MachineError

OLDEST_JAVA: Final = 17


def find_java() -> str:
    """The java that Spark will start: of JAVA_HOME, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise MachineError(
                f"JAVA_HOME is {home}, but there is no {java}",
                remedy="Unset JAVA_HOME, or point it at a JDK 17",
            )
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise MachineError(
            "Spark needs Java, and there is none on the PATH",
            remedy="Install openjdk-17-jre-headless, or set JAVA_HOME",
        )
    return found


@lru_cache
def java_major(java: str) -> int:
    """The major version of a java; 0 when it doesn't say."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except OSError as exc:
        raise MachineError(
            f"{java} can't be started: {exc.strerror}", remedy="Install openjdk-17-jre-headless"
        ) from exc
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else 0
