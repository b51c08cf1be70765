"""``pgsluice run`` as a real process under a shop's traffic, to be killed, and the comparison afterwards."""

from __future__ import annotations

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
import psycopg

from pgsluice.changelog.lock import holder
from pgsluice.embedded.shop import SCHEMA, TABLES, ShopTraffic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Runner:
    """One pipeline, from a database with a shop to a DuckDB file, run again and again."""

    def __init__(self, url: str, place: Path, *, admin_url: str | None = None, settings: str = "") -> None:
        self.url = url  # what the pipeline connects to; may lead through a proxy
        self.admin_url = admin_url or url
        self.place = place
        self.target = place / "shop.duckdb"
        self.log = place / "state" / "log"
        self.lines = place / "run.log"
        self.config = place / "config.yaml"
        self.config.write_text(
            f"name: shop\nstate_dir: {place}/state\nsource: {{postgres: {{url: '{url}', "
            f"replication: {{keyless: full}}}}}}\ntarget: {{duckdb: {{path: {self.target}}}}}\n{settings}"
        )
        self.process: subprocess.Popen[bytes] | None = None

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
            [sys.executable, "-m", "pgsluice.cli.main", arguments[0], "-c", str(self.config), *arguments[1:]],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, env: Mapping[str, str] | None = None) -> None:
        """Start a run; returns at once."""
        with self.lines.open("ab") as lines:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pgsluice.cli.main", "run", "-c", str(self.config)],
                stdout=lines,
                stderr=lines,
                env={**os.environ, **(env or {})},
            )

    def wait_for_changes(self, timeout: float = 60.0) -> None:
        """Until the sink has applied something since now."""
        before = self._position()
        deadline = time.monotonic() + timeout
        while self._position() == before:
            assert time.monotonic() < deadline, f"no progress in {timeout} s:\n{self.tail()}"
            assert self.process is None or self.process.poll() is None, f"the run ended:\n{self.tail()}"
            time.sleep(0.02)

    def _position(self) -> str:
        found = [json.loads(path.read_text())["lsn"] for path in (self.log / "consumers").glob("*.json")]
        return found[0] if found else ""

    def wait_for_death(self, timeout: float = 60.0) -> int:
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
        os.kill(pid, signal.SIGKILL)
        return True

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
        with duckdb.connect(str(self.target), read_only=True) as target:
            target.execute("SET TimeZone = 'UTC'")
            for table in TABLES:
                wanted, found = self._source(table), _counted(target.table(f"public.{table}").fetchall())
                missing, extra = wanted - found, found - wanted
                assert not missing, (
                    f"{table}: {sum(missing.values())} rows missing, such as {next(iter(missing))}"
                )
                assert not extra, f"{table}: {sum(extra.values())} rows too many, such as {next(iter(extra))}"
                compared += wanted.total()
        print(f"compared {compared} rows in {len(TABLES)} tables: equal")
        return compared

    def _source(self, table: str) -> Counter[Any]:
        with psycopg.connect(self.admin_url) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return _counted(connection.execute(f'SELECT * FROM "{table}"').fetchall())


class Traffic:
    """The shop's traffic while a block runs; connects again when its server goes away."""

    def __init__(self, url: str, seed: int, *, fill: bool = True) -> None:
        self._url = url
        self._seed = seed
        self._fill = fill
        self._thread: ShopTraffic | None = None
        self._going = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Traffic:
        print(f"traffic seed {self._seed}")
        self._thread = ShopTraffic(self._url, self._seed, fill=self._fill)
        self._thread.start()
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._going.set()
        self._watcher.join()
        assert self._thread is not None
        self._thread.stop()

    def _watch(self) -> None:
        while not self._going.wait(0.2):
            if self._thread is not None and not self._thread.is_alive():
                self._seed += 1
                self._thread = ShopTraffic(self._url, self._seed, fill=False)
                self._thread.start()


def _counted(rows: list[tuple[Any, ...]]) -> Counter[Any]:
    return Counter(tuple(map(_comparable, row)) for row in rows)


def _comparable(value: Any) -> Any:
    """JSON comes as an object from one side and as text from the other."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
