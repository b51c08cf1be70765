"""A real ``pgsluice run`` that has started Spark: what other users of the machine see, and what it says."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.faults.running import Runner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "s3a-secret",
    "spark.my.address": "https://app:url-secret@h.example/",
}
OUR_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (info|warn) ")


class SparkRun:
    """A run that has carried a batch that was too large to go without Spark."""

    def __init__(self, database: Database, place: Path, conf: dict[str, str]) -> None:
        settings = f"spark: {{master: 'local[2]', conf: {json.dumps(conf)}}}\nbatch: {{decode: tasks}}\n"
        self.runner = Runner(database.url, place, mode="replication", settings=settings)
        self.runner.prepare()
        with database.connect() as connection, connection.transaction():
            connection.execute(
                "INSERT INTO visit SELECT now(), repeat('x', 2000) FROM generate_series(1, 4500)"
            )
            inside = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert inside is not None
        self.runner.start()
        self.runner.wait_for_position(inside[0])
        assert self.runner.process is not None
        self.driver = psutil.Process(self.runner.process.pid)
        self.children = self.driver.children(recursive=True)
        self.commands: list[str] = []
        for process in (self.driver, *self.children):
            with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # helpers of the JVM end
                self.commands.append(" ".join(process.cmdline()))

    def listening(self) -> set[tuple[str, int]]:
        """The addresses on which any of its processes can be reached."""
        found = set()
        for process in (self.driver, *self.children):
            with contextlib.suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
                for connection in process.net_connections("inet"):
                    if connection.status == psutil.CONN_LISTEN:
                        found.add((connection.laddr.ip.removeprefix("::ffff:"), connection.laddr.port))
        return found

    def lines(self) -> list[str]:
        """What it has said."""
        return self.runner.lines.read_text().splitlines()


@pytest.fixture
def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_nobody_else_sees_or_reaches_it(database: Database, tmp_path: Path, free_port: int) -> None:
    """No secret in the process list, sockets on loopback only, no UI, one line about Spark; no child left."""
    run = SparkRun(database, tmp_path, {"spark.ui.port": str(free_port), **SECRETS})
    try:
        shown = "\n".join(run.commands)
        for part in ("SparkSubmit", "pyspark.daemon", "pgsluice.source.process", "spark.ui.port"):
            assert part in shown
        for secret in (database.server.password, "s3a-secret", "url-secret"):
            assert secret not in shown
        listening = run.listening()
        assert listening
        assert {ip for ip, _ in listening} <= {"127.0.0.1", "::1"}
        assert free_port not in {port for _, port in listening}
        run.runner.process.send_signal(signal.SIGINT)
        assert run.runner.wait_for_death(120) == 0
        assert psutil.wait_procs(run.children, 120)[1] == []
    finally:
        run.runner.close()
    assert [line for line in run.lines() if not OUR_LINE.match(line)] == []
    assert len([line for line in run.lines() if "spark" in line.lower()]) == 1
    assert not any(secret in line for line in run.lines() for secret in ("s3a-secret", "url-secret"))


WITH_UI = """
import json
from urllib.request import urlopen
import psutil
from pgsluice.pipeline.session import SparkOptions, start_session

conf = {"spark.ui.enabled": "true", "spark.hadoop.fs.s3a.secret.key": "s3a-secret"}
session = start_session(SparkOptions(master="local[1]", conf=conf, quiet=False))
(jvm,) = [child for child in psutil.Process().children(recursive=True) if "java" in child.name()]
listening = [c.laddr.ip for c in jvm.net_connections("inet") if c.status == psutil.CONN_LISTEN]
context = session.sparkContext
applications = json.load(urlopen(f"{context.uiWebUrl}/api/v1/applications", timeout=60))
arrived = context.getConf().get("spark.hadoop.fs.s3a.secret.key")
session.stop()
print(json.dumps([listening, [application["name"] for application in applications], arrived]))
"""


def test_the_ui_and_the_jvm_s_lines_when_asked_for() -> None:
    """``spark.ui.enabled`` brings the UI, on loopback too; what the JVM says is shown, and never as data."""
    done = subprocess.run([sys.executable, "-c", WITH_UI], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listening, applications, arrived = json.loads(done.stdout)
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    assert applications == ["pgsluice"]
    assert arrived == "s3a-secret"  # by another way than the command line
    assert "WARN" in done.stderr
