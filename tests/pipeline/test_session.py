"""Spark that can't start, or loses a job: one clear line, and before it was tried where that is possible."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pgsluice import MemorySink, Pipeline, PostgresSource
from pgsluice.errors import JobLostError, MachineError
from pgsluice.observability.redact import has_secret
from pgsluice.pipeline import session
from pgsluice.pipeline.machine import find_java
from pgsluice.pipeline.policy import after_error
from pgsluice.pipeline.session import LazySpark, SparkOptions, error_of_job, start_session
from pgsluice.sinks.memory import MemoryStore
from pgsluice.source.tasks import for_each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

# Packages are looked for in an empty directory only, so that no network is asked.
NOWHERE = """<ivysettings>
  <settings defaultResolver="nowhere"/>
  <resolvers>
    <filesystem name="nowhere"><artifact pattern="{place}/[artifact]-[revision].[ext]"/></filesystem>
  </resolvers>
</ivysettings>"""


def test_no_java_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Missing, misplaced or too old: what, where and what to do."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="Java"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match="JAVA_HOME"):
        find_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    with pytest.raises(MachineError, match="Java 11"):
        start_session(SparkOptions())


def test_a_jar_that_is_not_there(database: Database, tmp_path: Path) -> None:
    """The path is named when the run begins, not when a class is missing hours later; nothing was made."""
    (tmp_path / "there.jar").touch()
    jars = (str(tmp_path / "there.jar"), f"file:{tmp_path}/gone.jar")
    run = Pipeline(
        PostgresSource(database.url, init=True),
        MemorySink(MemoryStore()),
        state_dir=tmp_path / "state",
        spark=SparkOptions(jars=jars),
    )
    with pytest.raises(MachineError, match=r"spark\.jars names file:.*/gone\.jar, and there is no such file"):
        run.run(once=True)
    assert database.rows("SELECT FROM pg_namespace WHERE nspname = 'pgsluice'") == []
    assert not (tmp_path / "state").exists()
    with pytest.raises(MachineError, match=r"gone\.jar"):
        start_session(SparkOptions(jars=jars))


def test_jars_that_are_left_to_spark(tmp_path: Path) -> None:
    """Patterns, as Spark has them, and other machines' files are not ours to look for."""
    (tmp_path / "there.jar").touch()
    LazySpark(SparkOptions(jars=(f"{tmp_path}/*.jar", "hdfs://h.example/x.jar", "local:/x.jar"))).check()
    with pytest.raises(MachineError, match="none"):
        LazySpark(SparkOptions(conf={"spark.jars": f"{tmp_path}/there.jar, {tmp_path}/none*.jar"})).check()


def test_a_package_that_can_not_be_had(tmp_path: Path) -> None:
    """The coordinate is named, with what to check; Ivy's report of fifty lines is not shown."""
    (tmp_path / "ivy.xml").write_text(NOWHERE.format(place=tmp_path))
    conf = {"spark.jars.ivySettings": str(tmp_path / "ivy.xml"), "spark.jars.ivy": str(tmp_path / "ivy")}
    program = f"""
from pgsluice.errors import MachineError
from pgsluice.pipeline.session import SparkOptions, start_session
try:
    start_session(SparkOptions(master="local[1]", packages=("org.example:nothing:1.0",), conf={conf!r}))
except MachineError as error:
    print(error.message)
    print(error.remedy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "Spark did not start: a package of spark.packages can't be had: org.example#nothing;1.0: not found",
        "Check group:artifact:version, and that this machine reaches a repository that has it",
    ]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("spark.hadoop.fs.s3a.secret.key", "x", True),
        ("spark.ssl.keyPassword", "x", True),
        ("spark.my.address", "https://app:x@h.example", True),
        ("spark.my.options", "user=app password=x", True),
        ("spark.driver.memory", "1g", False),
        ("spark.driver.extraJavaOptions", "-Dlevel=debug", False),
    ],
)
def test_what_counts_as_a_secret(name: str, value: str, hidden: bool) -> None:
    """By name or by value; the JVM is started with the others only."""
    assert has_secret(name, value) is hidden
    assert (name in session._shown({name: value})) is not hidden


def _killed(_: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def _crashed(_: int) -> int:
    return len(ctypes.string_at(0))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("dies", "said"),
    [(_killed, "exited unexpectedly"), (_crashed, "Segmentation fault")],
    ids=["killed", "crashed"],
)
def test_a_job_whose_workers_die(spark: SparkSession, dies: Callable[[int], int], said: str) -> None:
    """Spark's own words say why; the job is tried again, but not for ever."""
    with pytest.raises(Exception, match="collectToPython") as caught:
        for_each(spark, [1], dies)
    error = error_of_job(caught.value)
    assert isinstance(error, JobLostError)
    assert said in error.message
    assert "\n" not in error.message
    tries = [after_error(error, attempt) is not None for attempt in range(6)]
    assert tries == [True] * 4 + [False] * 2
