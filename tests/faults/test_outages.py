"""The source goes away and comes back; the connection is cut and slowed; the log is full or gone."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

import psutil
import psycopg
import pytest

from pgsluice.changelog.reader import LogReader
from pgsluice.embedded.shop import TABLES
from tests.faults.running import BUSY, Runner, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_disk import SmallDisk
    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy


pytestmark = pytest.mark.timeout(900)  # servers and processes are started again and again

Runners = Callable[..., Runner]
"""Makes prepared pipelines of the shop."""


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    """Makes prepared pipelines of the shop, and ends what is left of them."""
    made: list[Runner] = []

    def make(url: str, **options: str) -> Runner:
        made.append(Runner(url, tmp_path, **options))
        made[-1].prepare()
        return made[-1]

    yield make
    for runner in made:
        runner.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_server_restarts(
    own_server: EmbeddedPostgres, runners: Runners, mode: Literal["fast", "immediate"]
) -> None:
    """A restart under traffic, orderly or as a crash, costs nothing but a reconnect."""
    runner = runners(own_server.url)
    with Traffic(own_server.url, random.randrange(10**6)):
        runner.start()
        for _ in range(2):
            runner.wait_for_changes()
            own_server.restart(mode)
        runner.wait_for_changes()
    assert runner.stop() == 0
    assert runner.compare() > 200


def test_the_connection_is_cut_in_the_middle_of_frames(
    database: Database, proxy: DatabaseProxy, runners: Runners
) -> None:
    """Cut after random numbers of bytes, orderly or by reset, again and again."""
    seed = random.randrange(10**6)
    print(f"cut seed {seed}")
    rng = random.Random(seed)
    runner = runners(proxy.url, admin_url=database.url)
    with Traffic(database.url, seed):
        runner.start()
        runner.wait_for_changes()
        for _ in range(12):
            proxy.cut_after(rng.randrange(1, 60_000))
            time.sleep(rng.random() * 0.4)
            if rng.random() < 0.3:
                proxy.cut(reset=True)
        runner.wait_for_changes()
    assert runner.stop() == 0
    assert runner.compare() > 200


def test_a_slow_connection_that_tears_frames_apart(
    database: Database, proxy: DatabaseProxy, runners: Runners
) -> None:
    """Small delayed pieces: what libpq would have read past CopyBothResponse is not lost either."""
    runner = runners(proxy.url, admin_url=database.url)
    with Traffic(database.url, random.randrange(10**6)):
        time.sleep(1)  # so that rows wait when the stream starts
        proxy.delay, proxy.piece = 0.002, 777
        runner.start()
        runner.wait_for_changes()
        time.sleep(3)
    proxy.delay, proxy.piece = 0.0, 65536
    assert runner.stop() == 0
    assert runner.compare() > 200


def test_a_log_at_its_bound_closes_the_connection_and_goes_on(database: Database, runners: Runners) -> None:
    """While the log is full the slot is inactive and the server can shut down; then the rest comes."""
    runner = runners(database.url, settings="log: {max_bytes: 300KiB}\n")
    with Traffic(database.url, random.randrange(10**6), pause=BUSY):
        runner.start()
        deadline = time.monotonic() + 120
        while "log full" not in runner.tail():
            assert time.monotonic() < deadline, runner.tail()
            time.sleep(0.1)
        runner.wait_for_changes()
    assert runner.stop() == 0
    assert runner.compare() > 200


def test_spark_is_killed_under_a_batch(database: Database, runners: Runners) -> None:
    """The JVM dies while its workers decode: one clear line, exit code 2, and the next run goes on."""
    runner = runners(database.url, mode="replication", settings="batch: {decode: tasks, max_bytes: 12MiB}\n")
    with Traffic(database.url, random.randrange(10**6)):
        time.sleep(1)
    database.run("INSERT INTO visit (page) SELECT repeat('x', 900) FROM generate_series(1, 60000)")
    runner.start()
    deadline = time.monotonic() + 120
    while not (found := _jvm_at_work(runner)):
        assert time.monotonic() < deadline, runner.tail()
        time.sleep(0.01)
    found.kill()
    assert runner.wait_for_death() == 2
    assert "Spark's process ended while a batch was being applied" in runner.tail()
    assert "Traceback" not in runner.tail()
    assert runner.compare() >= 60000


def _jvm_at_work(runner: Runner) -> psutil.Process | None:
    """The JVM, once it has Python workers."""
    assert runner.process is not None
    with contextlib.suppress(psutil.NoSuchProcess):  # what starts the JVM ends meanwhile
        children = psutil.Process(runner.process.pid).children()
        jvm = next((child for child in children if child.name() == "java"), None)
        helpers = jvm.children(recursive=True) if jvm is not None else []
        return jvm if any(_runs(helper, "pyspark.daemon") for helper in helpers) else None
    return None


def _runs(process: psutil.Process, module: str) -> bool:
    with contextlib.suppress(psutil.Error):  # it ended meanwhile
        return module in process.cmdline()
    return False


def test_a_full_disk_is_survived(database: Database, runners: Runners, small_disk: SmallDisk) -> None:
    """ENOSPC while writing the log: cut, wait, and read the slot again once there is room."""
    disk = small_disk.path
    runner = runners(database.url, settings=f"log: {{path: {disk}/log}}\n")
    runner.log = disk / "log"
    ballast = disk / "ballast"
    with Traffic(database.url, random.randrange(10**6)):
        runner.start()
        runner.wait_for_changes()
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(64 << 10))
        deadline = time.monotonic() + 120
        while "No space left" not in runner.tail():
            assert time.monotonic() < deadline, runner.tail()
            time.sleep(0.1)
        ballast.unlink()
        runner.wait_for_changes()
    assert runner.stop() == 0
    small_disk.resize("200m")
    assert runner.compare() > 200


def test_two_runs_on_one_slot(database: Database, runners: Runners, tmp_path: Path) -> None:
    """The second run says who has the log, or that the slot is taken, and the first is not disturbed."""
    runner = runners(database.url)
    with Traffic(database.url, random.randrange(10**6)):
        runner.start()
        runner.wait_for_changes()
        with ThreadPoolExecutor(2) as both:  # each waits some seconds for what it wants before it gives up
            attempts = [
                both.submit(runner.command, "run", "--once", *options)
                for options in ((), ("--state-dir", str(tmp_path / "other")))
            ]
        same, other = (attempt.result() for attempt in attempts)
        assert same.returncode == 2
        assert "SLUICE-LOG-LOCKED" in same.stderr
        assert "Traceback" not in same.stderr
        assert other.returncode == 3
        assert "SLUICE-SLOT-TAKEN" in other.stderr
        runner.wait_for_changes()
    assert runner.stop() == 0
    assert runner.compare() > 200


def test_a_lost_log_is_a_named_gap_when_the_log_confirms(database: Database, runners: Runners) -> None:
    """confirm: log. The sink lags, the log vanishes: the next run names the gap and writes nothing."""
    runner = runners(database.url)
    with Traffic(database.url, 1):
        runner.start({"PGSLUICE_FAILPOINT": "sink.before_commit:3"})
        assert runner.wait_for_death() == -9
        time.sleep(1.0)
    before = runner.position_in_target()
    assert before < LogReader(runner.log).end  # so there is something to lose
    shutil.rmtree(runner.log)
    failed = runner.command("run", "--once")
    assert failed.returncode == 5, failed.stderr
    assert "SLUICE-SINK-BEHIND" in failed.stderr
    assert "no longer in the change log" in failed.stderr
    assert runner.position_in_target() == before


def test_a_lost_log_costs_nothing_when_sinks_confirm(database: Database, runners: Runners) -> None:
    """confirm: sinks. The slot was never confirmed beyond the sink, so everything comes again."""
    runner = runners(database.url, settings="log: {confirm: sinks}\n")
    with Traffic(database.url, 2):
        runner.start({"PGSLUICE_FAILPOINT": "sink.before_commit:3"})
        assert runner.wait_for_death() == -9
        time.sleep(1.0)
    shutil.rmtree(runner.log)
    assert runner.compare() > 200


def test_a_recreated_slot_is_a_named_gap(database: Database, runners: Runners) -> None:
    """Dropped and made again between two runs: what was written in between is gone, and said to be."""
    runner = runners(database.url)
    with Traffic(database.url, 3):
        runner.start()
        runner.wait_for_changes()
    assert runner.stop() == 0
    with psycopg.connect(database.url, autocommit=True) as connection:
        (slot,) = connection.execute("SELECT slot FROM pgsluice.pipeline").fetchone()
        connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
        missing = runner.command("run", "--once")
        assert (missing.returncode, "SLUICE-SLOT-MISSING" in missing.stderr) == (3, True), missing.stderr
        connection.execute("INSERT INTO visit (page) VALUES ('lost')")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    failed = runner.command("run", "--once")
    assert failed.returncode == 5, failed.stderr
    assert "SLUICE-SLOT-RECREATED" in failed.stderr


def test_a_target_that_is_away_when_a_run_starts(
    database: Database, own_server: EmbeddedPostgres, runners: Runners, tmp_path: Path
) -> None:
    """Another target goes on, the log holds what the one that is away misses, and status says why."""
    runner = runners(
        database.url,
        targets=f"targets: [{{postgres: {{url: '{own_server.url}'}}}}, "
        f"{{duckdb: {{path: {tmp_path}/shop.duckdb}}}}]",
    )
    with Traffic(database.url, random.randrange(10**6)):
        first = runner.command("run", "--once")
        assert first.returncode == 0, first.stderr
        own_server.stop()
        refused = runner.command("run", "--once")  # it can't do what it was asked for
        assert (refused.returncode, "SLUICE-TARGET-UNAVAILABLE" in refused.stderr) == (4, True)
        before = runner.position_of("duckdb")
        runner.start()
        deadline = time.monotonic() + 60
        while "trying again" not in runner.tail() or runner.position_of("duckdb") <= before:
            assert time.monotonic() < deadline, runner.tail()
            time.sleep(0.1)
        assert "SLUICE-TARGET-UNAVAILABLE" in runner.command("status").stdout
        own_server.start()
        runner.wait_for_changes()
    assert runner.stop() == 0
    assert runner.compare() > 200
    with psycopg.connect(own_server.url) as target:
        for table in TABLES:
            rows = Counter(target.execute(f'SELECT "{table}"::text FROM "{table}"').fetchall())
            with psycopg.connect(database.url) as source:
                assert rows == Counter(source.execute(f'SELECT "{table}"::text FROM "{table}"').fetchall())
