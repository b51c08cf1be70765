"""``pgsluice run`` as a real process under a shop's traffic, to be killed, and the comparison afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import psutil
import psycopg

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.lock import holder
from pgsluice.changelog.position import Lsn
from pgsluice.embedded.shop import SCHEMA, TABLES, ShopTraffic

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping
    from pathlib import Path


WRITERS = 2  # so that transactions overlap
PAUSE = 0.01  # seconds after each of their transactions: what is killed needs the machine to start again
BUSY = 0.002  # the same, for traffic that fills a log or goes on for hours


class Runner:
    """
    One pipeline, from a database with a shop to a DuckDB file, run again and again.

    Args:
        url: what the pipeline connects to; may lead through a proxy.
        admin_url: of the same database, not through the proxy.
        targets: lines of the configuration, for other targets than the DuckDB file.
        settings: more lines.
    """

    program = "pgsluice.cli.main"  # the module that is run

    def __init__(
        self,
        url: str,
        place: Path,
        *,
        admin_url: str | None = None,
        mode: str = "snapshot_and_replication",
        targets: str = "",
        settings: str = "",
    ) -> None:
        self.url = url
        self.admin_url = admin_url or url
        self.place = place
        self.target = place / "shop.duckdb"
        self.log = place / "state" / "log"
        self.lines = place / "run.log"
        self.config = place / "config.yaml"
        self.config.write_text(
            f"name: shop\nstate_dir: {place}/state\nsource: {{postgres: {{url: '{url}', mode: {mode}, "
            f"replication: {{keyless: full}}}}}}\n"
            f"{targets or f'target: {{{self.target_section()}}}'}\n{settings}"
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._said_before = 0  # bytes of lines, by earlier runs

    def target_section(self) -> str:
        """The target, as YAML."""
        return f"duckdb: {{path: {self.target}}}"

    def prepare(self) -> None:
        """The shop's tables, and ``init``."""
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            connection.execute(SCHEMA)
        done = self.command("init")
        assert done.returncode == 0, done.stderr

    def command(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", self.program, arguments[0], "-c", str(self.config), *arguments[1:]],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **(env or {})},
        )

    def start(self, env: Mapping[str, str] | None = None) -> None:
        """Start a run; returns at once."""
        self._said_before = self.lines.stat().st_size if self.lines.exists() else 0
        with self.lines.open("ab") as lines:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.program, "run", "-c", str(self.config)],
                stdout=lines,
                stderr=lines,
                env={**os.environ, **(env or {})},
            )

    def wait_for_changes(self, timeout: float = 180.0) -> None:
        """Until the sink has applied something since now."""
        before = self._position()
        deadline = time.monotonic() + timeout
        while self._position() == before:
            assert time.monotonic() < deadline, f"no progress in {timeout} s:\n{self.tail()}"
            assert self.process is None or self.process.poll() is None, f"the run ended:\n{self.tail()}"
            time.sleep(0.02)

    def said(self) -> str:
        """What the run that was started last has printed."""
        return self.lines.read_bytes()[self._said_before :].decode(errors="replace")

    def wait_for_line(self, text: str, timeout: float = 60.0) -> None:
        """Until the run that was started last has said something."""
        deadline = time.monotonic() + timeout
        while text not in self.said():
            assert time.monotonic() < deadline, f"no {text!r} in {timeout} s:\n{self.tail()}"
            assert self.process is None or self.process.poll() is None, f"the run ended:\n{self.tail()}"
            time.sleep(0.02)

    def wait_for_position(self, lsn: str, timeout: float = 120.0) -> None:
        """Until the sink has applied everything up to there."""
        deadline = time.monotonic() + timeout
        while not self._position() or Lsn.parse(self._position()) < Lsn.parse(lsn):
            assert time.monotonic() < deadline, f"not at {lsn} in {timeout} s:\n{self.tail()}"
            assert self.process is None or self.process.poll() is None, f"the run ended:\n{self.tail()}"
            time.sleep(0.05)

    def position_of(self, sink: str) -> Lsn:
        """How far one target is."""
        return next(consumer.lsn for consumer in Consumers(self.log).all() if consumer.name == sink)

    def has_reached(self, sink: str) -> bool:
        """Whether a target was opened once: from then on the log is held for it."""
        return any(consumer.name == sink for consumer in Consumers(self.log).all())

    def _position(self) -> str:
        """Of the slowest target."""
        found = Consumers(self.log).all()
        return str(min(consumer.lsn for consumer in found)) if found else ""

    def position_in_target(self) -> Lsn:
        """How far the rows in the target are, as it says itself."""
        with duckdb.connect(str(self.target), read_only=True) as target:
            found = target.execute("SELECT token FROM pgsluice.progress").fetchall()
        return Lsn.parse(json.loads(found[0][0])["lsn"])

    def wait_for_death(self, timeout: float = 180.0) -> int:
        """The exit code of a run that ends by itself."""
        assert self.process is not None
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run did not end in {timeout} s:\n{self.tail()}") from None

    def kill_driver(self) -> None:
        """SIGKILL the run itself."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill_listener(self) -> bool:
        """SIGKILL the listener, if there is one."""
        pid = holder(self.log / "lock")
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):  # it ends just now by itself
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def kill_worker(self) -> bool:
        """SIGKILL one of Spark's Python workers, if there is one."""
        workers = self._workers()
        if not workers:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            workers[-1].kill()
            return True
        return False

    def _workers(self) -> list[psutil.Process]:
        """The processes that a daemon of PySpark has forked."""
        assert self.process is not None
        found = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # it ends, or has ended
                    if "pyspark.daemon" in each.cmdline():
                        found[each.pid] = each.ppid(), each
        return [process for parent, process in found.values() if parent in found]

    def close(self) -> None:
        """End what a failed test left running."""
        if self.process is not None and self.process.poll() is None:
            self.kill_driver()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.wait_for_death()

    def tail(self) -> str:
        """The last lines that runs have printed."""
        return "\n".join(self.lines.read_text().splitlines()[-25:]) if self.lines.exists() else ""

    def compare(self) -> int:
        """Catch up with ``run --once`` and compare every table row by row; gives how many rows."""
        done = self.command("run", "--once")
        assert done.returncode == 0, done.stderr
        compared = 0
        held = self.held()
        for table in TABLES:
            wanted, found = self.source_rows(table), held[table]
            missing, extra = wanted - found, found - wanted
            assert not missing, (
                f"{table}: {sum(missing.values())} rows missing, such as {next(iter(missing))}"
            )
            assert not extra, f"{table}: {sum(extra.values())} rows too many, such as {next(iter(extra))}"
            compared += wanted.total()
        print(f"compared {compared} rows in {len(TABLES)} tables: equal")
        return compared

    def held(self) -> dict[str, Counter[Any]]:
        """The rows of the target, by table."""
        with duckdb.connect(str(self.target), read_only=True) as target:
            target.execute("SET TimeZone = 'UTC'")
            return {table: _counted(target.table(f"public.{table}").fetchall()) for table in TABLES}

    def source_rows(self, table: str) -> Counter[Any]:
        """The rows of the source, in the same form."""
        with psycopg.connect(self.admin_url) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return _counted(connection.execute(f'SELECT * FROM "{table}"').fetchall())


class Traffic:
    """Two writers of the shop's traffic while a block runs; they connect again when the server goes away."""

    def __init__(self, url: str, seed: int, *, fill: bool = True, pause: float = PAUSE) -> None:
        self._url = url
        self._seed = seed
        self._fill = fill
        self._pause = pause
        self._writers: list[ShopTraffic] = []
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Traffic:
        print(f"traffic seed {self._seed}")
        self._writers.append(self._writer(fill=self._fill))
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._watcher.join()
        for writer in self._writers:
            writer.stop()

    def _writer(self, *, fill: bool = False) -> ShopTraffic:
        self._seed += 1
        writer = ShopTraffic(self._url, self._seed, fill=fill, pause=self._pause)
        writer.start()
        return writer

    def _watch(self) -> None:
        while not self._ending.wait(0.2):
            if len(self._writers) < WRITERS and self._writers[0].transactions:  # the shop is filled
                self._writers.append(self._writer())
            # A writer also ends when it waits for another in a circle: one of them is told to give way.
            self._writers = [w if w.is_alive() else self._writer() for w in self._writers]


def _counted(rows: list[tuple[Any, ...]]) -> Counter[Any]:
    return Counter(tuple(map(_comparable, row)) for row in rows)


def _comparable(value: Any) -> Any:
    """JSON comes as an object from one side and as text from the other."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value


def kill_at_random(runner: Runner, times: int, rng: random.Random, *, drivers: float) -> None:
    """Kill a run so many times, its driver with that probability, else its listener; then stop it."""
    kills = {"driver": 0, "listener": 0}
    runner.start()
    while sum(kills.values()) < times:
        if runner.process is None or runner.process.poll() is not None:
            runner.start()
        runner.wait_for_changes()
        time.sleep(rng.random())
        if rng.random() < drivers:
            runner.kill_driver()
            kills["driver"] += 1
        elif runner.kill_listener():
            kills["listener"] += 1
    if runner.process is not None and runner.process.poll() is None:
        runner.stop()
    print(f"kills {kills}")
