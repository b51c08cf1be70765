"""
What would otherwise cost every test process its first seconds is made once, before the workers begin.

Spark's classes are put into an archive that each JVM of the tests maps instead of loading and verifying
them one by one; with that, and without the second compiler, Spark starts in about half the time. And the
compiled passes are put into numba's cache: two workers would both compile them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from pgsluice.errors import SluiceError
from pgsluice.pipeline.machine import find_java

if TYPE_CHECKING:
    import pytest

# Tests run a JVM for seconds: the second compiler's work would not pay.
_SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1"

_COMPILE: Final = """
from pgsluice.source.pgoutput.decode import warm
warm()
"""

_START_SPARK: Final = """
from pyspark import SparkContext
from pgsluice.pipeline.session import SparkOptions, start_session
session = start_session(SparkOptions(master="local[2,4]"))
session.range(9).mapInArrow(lambda rows: rows, "id long").groupBy("id").count().collect()
session.stop()
java = SparkContext._gateway.proc
java.stdin.close()
java.wait()  # it writes the archive when it ends
"""


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment of every JVM; the process that starts workers makes what is missing first."""
    if hasattr(config, "workerinput"):
        return  # the environment is inherited
    archive = _archive(config)
    if config.getoption("numprocesses", None):
        _prepare(archive)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", f"{_SHORT_LIVED} -XX:+UseSerialGC")
    # A JVM that can't use the archive goes on without it, and need not say so.
    used = f"-XX:SharedArchiveFile={archive} -Xlog:cds*=off" if archive.exists() else ""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_SHORT_LIVED} {used}".rstrip())


def _archive(config: pytest.Config) -> Path:
    """Where the archive of this Java and this Spark is, or will be: it is of no use to others."""
    assert config.cache is not None
    facts = [pyspark.__version__, pyspark.__file__]
    with suppress(SluiceError):  # without Java the tests that need it fail, and say why
        java = Path(find_java()).resolve()
        facts += [str(java), str(java.stat().st_mtime_ns)]
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return config.cache.mkdir("jvm") / f"spark-{name}.jsa"


def _prepare(archive: Path) -> None:
    commands = [(_COMPILE, {})]
    if not archive.exists():
        made = archive.with_suffix(".new")
        options = f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={made}"
        commands.append((_START_SPARK, {"SPARK_SUBMIT_OPTS": options}))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for program, environment in commands
    ]
    for process in running:
        process.wait()
    with suppress(FileNotFoundError):  # the tests are slower without it, no more
        archive.with_suffix(".new").rename(archive)
