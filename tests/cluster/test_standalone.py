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

from pgsluice.state.requests import Requests
from tests.cluster.standalone import SPARK_HOME, StandaloneCluster

if TYPE_CHECKING:
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


def tasks_by_executor(events: Path) -> Counter[str]:
    """How many tasks each executor has finished, of all applications."""
    found: Counter[str] = Counter()
    for log in events.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            event = json.loads(line) if line.startswith('{"Event":"SparkListenerTaskEnd"') else None
            if event and event["Task End Reason"]["Reason"] == "Success":
                found[f"{log.name} {event['Task Info']['Executor ID']}"] += 1
    return found


@pytest.mark.timeout(600)
def test_the_same_result_on_a_cluster(large: Database, target_database: Database, tmp_path: Path) -> None:
    """
    Tasks on both workers, a driver that is killed while it copies, a second one that is kept out, and a
    worker that goes away while changes are decoded.
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
        first = start(config)
        log = config.parent / "run.log"
        for _ in range(1200):
            if "copying tables" in log.read_text() and tasks_by_executor(events):
                break
            assert first.poll() is None, log.read_text()[-3000:]
            time.sleep(0.05)
        with start(config) as second:
            assert second.wait(60) != 0
        assert "SLUICE-LOG-LOCKED" in log.read_text()
        first.send_signal(signal.SIGKILL)
        first.wait()
        finish(config)
        assert checksum(target_database) == checksum(large)
        copied = tasks_by_executor(events)
        large.run(
            "UPDATE big SET n = n + 1",
            "DELETE FROM big WHERE id % 10 = 0",
            "INSERT INTO small VALUES (2, 'two')",
        )
        streaming = start(config)
        before = sum(copied.values())
        for _ in range(1200):
            if sum(tasks_by_executor(events).values()) > before:
                break
            assert streaming.poll() is None, log.read_text()[-3000:]
            time.sleep(0.05)
        cluster.kill_worker()
        streaming.send_signal(signal.SIGTERM)
        assert streaming.wait(120) == 0
        submit(cluster.master, config)
    assert checksum(target_database) == checksum(large)
    assert not list(Requests(tmp_path / "state").open())
    applications: dict[str, set[str]] = {}
    for place in tasks_by_executor(events):
        application, _, executor = place.partition(" ")
        applications.setdefault(application, set()).add(executor)
    assert any(len(executors - {"driver"}) == 2 for executors in applications.values()), applications
    (rows,) = target_database.rows("SELECT count(*) FROM big")[0]
    print(f"{rows} rows compared, tasks {dict(tasks_by_executor(events))}")
