"""The configuration of one machine on a cluster: the same result, whatever goes away meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgsluice.changelog.lock import holder
from pgsluice.state.requests import Requests
from tests.cluster.standalone import SPARK_HOME, StandaloneCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fix_pg import Database

pytestmark = pytest.mark.services

ROWS = 260_000  # some 120 MB, so several ranges


@pytest.fixture
def large(database: Database) -> Database:
    """A table of several ranges."""
    database.run(
        "CREATE TABLE big (id int PRIMARY KEY, n int, t text)",
        f"INSERT INTO big SELECT g, 0, repeat(md5(g::text), 12) FROM generate_series(1, {ROWS}) g",
        "CREATE TABLE small (id int PRIMARY KEY, t text)",
        "INSERT INTO small VALUES (1, 'one')",
    )
    return database


def start(config: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A run as a process of its own."""
    with (config.parent / "run.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pgsluice", "run", "-c", str(config), "--init", *arguments],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )


def finish(config: Path) -> None:
    """A run to its end."""
    with start(config, "--once") as run:
        assert run.wait(240) == 0, (config.parent / "run.log").read_text()[-3000:]


def submit(master: str, config: Path) -> None:
    """The same through spark-submit: the run takes the session that there is."""
    script = config.parent / "pipeline.py"
    script.write_text(
        "from pyspark.sql import SparkSession\n"
        "from pgsluice.cli.main import main\n"
        "SparkSession.builder.appName('pgsluice').getOrCreate()\n"
        f"raise SystemExit(main(['run', '-c', {str(config)!r}, '--once']))\n"
    )
    done = subprocess.run(
        [
            str(SPARK_HOME / "bin" / "spark-submit"), "--master", master,
            "--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1",
            "--conf", "spark.ui.enabled=false", str(script),
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "starting spark" not in done.stderr


def checksum(database: Database) -> list[tuple[Any, ...]]:
    """What the large table holds."""
    with psycopg.connect(database.url) as conn:
        query = "SELECT count(*), sum(n), md5(string_agg(id || t || n, '' ORDER BY id)) FROM big"
        return conn.execute(query).fetchall()


def events_of(events: Path, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """What Spark has noted of a kind, with the application that it was in."""
    found = []
    for log in events.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith(f'{{"Event":"SparkListener{kind}"'):
                found.append((log.name.removesuffix(".inprogress"), json.loads(line)))
    return found


def tasks_by_executor(events: Path) -> Counter[tuple[str, str]]:
    """How many tasks each executor has finished, by application."""
    return Counter(
        (application, event["Task Info"]["Executor ID"])
        for application, event in events_of(events, "TaskEnd")
        if event["Task End Reason"]["Reason"] == "Success"
    )


def workers_at(events: Path, applications: set[str]) -> set[str]:
    """The executors that have finished tasks of some applications."""
    return {executor for application, executor in tasks_by_executor(events) if application in applications}


def wait_for(reached: Callable[[], Any], run: subprocess.Popen[bytes], log: Path) -> None:
    """Until something is so; a run that ends before is a failure."""
    for _ in range(2400):
        if reached():
            return
        assert run.poll() is None, log.read_text()[-3000:]
        time.sleep(0.05)
    raise AssertionError(log.read_text()[-3000:])


@pytest.mark.timeout(600)
def test_the_same_result_on_a_cluster(large: Database, target_database: Database, tmp_path: Path) -> None:
    """
    Both workers copy and decode, a driver is killed while it copies, a second one kept out, a worker goes
    away while changes are decoded, and a driver that stood still is fenced off when another has taken over.
    """
    events = tmp_path / "events"
    events.mkdir()
    config = tmp_path / "pipeline.yaml"
    with StandaloneCluster(tmp_path, workers=2) as cluster:
        config.write_text(
            f"""
            state_dir: {tmp_path / "state"}
            spark:
              master: {cluster.master}
              conf:
                spark.driver.host: 127.0.0.1
                spark.driver.bindAddress: 127.0.0.1
                spark.executor.memory: 512m
                spark.ui.enabled: false
                spark.eventLog.enabled: true
                spark.eventLog.compress: false
                spark.eventLog.rolling.enabled: false
                spark.eventLog.dir: file://{events}
            source: {{postgres: {{url: "{large.url}"}}}}
            target: {{postgres: {{url: "{target_database.url}"}}}}
            """
        )
        log = config.parent / "run.log"
        first = start(config)
        wait_for(lambda: "copying tables" in log.read_text() and tasks_by_executor(events), first, log)
        with start(config) as second:
            assert second.wait(60) != 0
        assert "SLUICE-LOG-LOCKED" in log.read_text()
        first.send_signal(signal.SIGKILL)
        first.wait()
        finish(config)
        assert checksum(target_database) == checksum(large)
        copying = {application for application, _ in tasks_by_executor(events)}
        assert len(workers_at(events, copying)) == 2, "both workers copied"

        large.run("UPDATE big SET n = n + 1", "DELETE FROM big WHERE id % 10 = 0")
        streaming = start(config)

        def decoding() -> set[str]:
            return {application for application, _ in tasks_by_executor(events)} - copying

        wait_for(lambda: len(workers_at(events, decoding())) == 2, streaming, log)
        cluster.kill_worker()
        large.run("UPDATE big SET n = n + 1 WHERE id % 3 = 0")  # decoded by the one that is left
        wait_for(lambda: checksum(target_database) == checksum(large), streaming, log)
        assert [app for app, _ in events_of(events, "ExecutorRemoved") if app in decoding()]
        take_over(config, streaming, large)
        large.run("INSERT INTO small VALUES (3, 'three')")
        submit(cluster.master, config)
    assert checksum(target_database) == checksum(large)
    assert target_database.rows("TABLE small ORDER BY id") == large.rows("TABLE small ORDER BY id")
    assert not list(Requests(tmp_path / "state").open())
    (rows,) = target_database.rows("SELECT count(*) FROM big")[0]
    print(f"{rows} rows compared, tasks {dict(tasks_by_executor(events))}")


def take_over(config: Path, old: subprocess.Popen[bytes], source: Database) -> None:
    """A driver stands still, as if its machine were lost; another takes over; the first one is kept out."""
    os.kill(old.pid, signal.SIGSTOP)
    listener = holder(config.parent / "state" / "log" / "lock")
    assert listener is not None
    os.kill(listener, signal.SIGKILL)
    source.run("INSERT INTO small VALUES (2, 'two')")
    finish(config)
    source.run("UPDATE small SET t = 'changed' WHERE id = 2")
    os.kill(old.pid, signal.SIGCONT)
    assert old.wait(120) == 4  # the target's
    assert "SLUICE-TARGET-FENCED" in (config.parent / "run.log").read_text()
