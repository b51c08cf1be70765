"""A standalone Spark cluster on this machine: a master and workers, each a process that can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

if TYPE_CHECKING:
    from types import TracebackType

SPARK_HOME = Path(pyspark.__file__).parent


class StandaloneCluster:
    """A master and some workers with one core each."""

    def __init__(self, place: Path, workers: int) -> None:
        self._place = place
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{_free_port()}"

    def __enter__(self) -> StandaloneCluster:
        port = self.master.rpartition(":")[2]
        self._start("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        self._wait_for("master.Master", "I have been elected leader", 1)
        for number in range(self._count):
            work = self._place / f"worker-{number}"
            self._start(
                "worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
                "--webui-port", "0", "--work-dir", str(work), self.master,
            )  # fmt: skip
        self._wait_for("worker.Worker", "Successfully registered with master", self._count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            _kill_group(process)

    def kill_worker(self) -> None:
        """Kill a worker and the executors that it has started, as a machine that goes away."""
        _kill_group(self._processes[-1])

    def _start(self, name: str, *arguments: str) -> None:
        with (self._place / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={
                        **os.environ,
                        "SPARK_HOME": str(SPARK_HOME),
                        "SPARK_LOCAL_IP": "127.0.0.1",
                        "SPARK_NO_DAEMONIZE": "1",
                        "PYSPARK_PYTHON": sys.executable,
                    },
                )
            )

    def _wait_for(self, name: str, said: str, times: int) -> None:
        log = self._place / f"{name}.log"
        for _ in range(600):
            if log.read_text(errors="replace").count(said) >= times:
                return
            time.sleep(0.1)
        raise AssertionError(f"{name} did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
