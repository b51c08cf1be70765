"""A PostgreSQL target that can't write for a while: waited for with growing pauses, and nothing is lost."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
import pytest

from pgsluice import BatchOptions, Pipeline, PostgresSink, PostgresSource
from pgsluice.changelog.reader import LogReader
from pgsluice.cli.main import main
from pgsluice.pipeline.loop_facts import LoopFacts
from pgsluice.sinks.postgres import PostgresConfig
from tests.fix_pg import create_database, drop_database, serving
from tests.pipeline.test_run import source_rows
from tests.source.listening import wait_until, wal_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_disk import SmallDisk
    from tests.fix_pg import Database
    from tests.fix_proof import Proof

MIB = 1 << 20
PAUSES = (0.2, 0.5)  # before the second and the third attempt
BATCH = BatchOptions(max_bytes=2 * MIB, queue_bytes=2 * MIB)
WAITING = 32 * MIB  # of log, while the target is away
ALLOWED = 24 * MIB  # of memory meanwhile: less than what waits
WRITE = "INSERT INTO item SELECT max(id) + 1, 'x' FROM item"
TABLES = ("item", "other")


@dataclass
class Carried:
    """A run between two databases, and what it has said of its target."""

    source: Database
    target: Database
    state: Path
    pipeline: Pipeline
    tries: list[tuple[float, str]] = field(default_factory=list)

    @property
    def facts(self) -> LoopFacts:
        """How far it is."""
        return self.pipeline.loops["target"].facts

    def write(self, *statements: str) -> None:
        """Change the source; whatever its target does, the log has it soon."""
        self.source.run(*(statements or (WRITE,)))
        end = wal_end(self.source)
        wait_until(lambda: LogReader(self.state / "log").end >= end, lambda: f"no {end} in the log")

    def wait_for_trouble(self, words: str, capsys: pytest.CaptureFixture[str], tries: int = 3) -> None:
        """Until it was tried so often, for this reason; ``status`` says the same."""
        self._wait_until(lambda: len(self._because_of(words)) >= tries)
        asked = ["status", "--source-url", self.source.url, "--state-dir", str(self.state)]
        capsys.readouterr()
        assert main(asked) == 1
        said = " ".join(capsys.readouterr().out.split())
        assert "SLUICE-TARGET-UNAVAILABLE" in said
        assert "target tries again" in said
        assert words in said
        at = [moment for moment, _ in self._because_of(words)]
        pauses = [later - sooner for sooner, later in itertools.pairwise(at)]
        assert all(pause >= least for pause, least in zip(pauses, PAUSES, strict=False)), pauses

    def _wait_until(self, true: Callable[[], bool]) -> None:
        wait_until(lambda: true() or self.error, lambda: f"{self.facts}, said {self.tries}")
        assert self.error is None, self.error

    def _because_of(self, words: str) -> list[tuple[float, str]]:
        return [each for each in self.tries if words in each[1]]

    def compare(self, capsys: pytest.CaptureFixture[str]) -> int:
        """Once it has caught up: every row, and nothing is said any more."""
        end = wal_end(self.source)
        self.source.run(WRITE)
        self._wait_until(lambda: self.facts.position > end)
        assert self.facts.retrying == ""
        assert main(["status", "--source-url", self.source.url, "--state-dir", str(self.state)]) == 0
        compared = 0
        for table in TABLES:
            wanted = source_rows(self.source, table)
            assert source_rows(self.target, table) == wanted, table
            compared += len(wanted)
        capsys.readouterr()
        print(f"compared {compared} rows")
        return compared

    @property
    def error(self) -> BaseException | None:
        """What ended it."""
        return self.pipeline.loops["target"].error


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A server for the target, to be stopped."""
    with serving(18) as server:
        yield server


@pytest.fixture(scope="module")
def running(
    pg18: EmbeddedPostgres, server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Carried]:
    """One run for all troubles."""
    source, target = create_database(pg18), create_database(server)
    source.run(
        "CREATE TABLE item (id int PRIMARY KEY, t text)",
        "CREATE TABLE other (id int PRIMARY KEY, t text)",
        "INSERT INTO item SELECT g, 'x' FROM generate_series(1, 100) g",
        "INSERT INTO other SELECT g, 'x' FROM generate_series(1, 100) g",
    )
    target.run(f"ALTER DATABASE {target.name} SET deadlock_timeout = '1500ms'")
    state = tmp_path_factory.mktemp("troubles")
    config = PostgresConfig.model_validate({"url": target.url, "lock_timeout": "2s"})
    pipeline = Pipeline(
        PostgresSource(source.url, init=True), PostgresSink(config), state_dir=state, batch=BATCH
    )
    carried = Carried(source, target, state, pipeline)
    real = LoopFacts.try_again

    def noted(facts: LoopFacts, error: Exception) -> None:
        carried.tries.append((time.monotonic(), str(error)))
        real(facts, error)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LoopFacts, "try_again", noted)
        thread = threading.Thread(target=pipeline.run)
        thread.start()
        try:
            wait_until(lambda: pipeline.loops and pipeline.loops["target"].is_streaming)
            yield carried
        finally:
            pipeline.stop()
            thread.join()
    drop_database(source)


@pytest.fixture
def carried(running: Carried) -> Carried:
    """The run, with nothing said yet."""
    running.tries.clear()
    assert running.error is None
    return running


def end_sessions(target: Database) -> None:
    """Settings of the database are those of sessions that are opened later."""
    target.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'pgsluice sink'"
    )


def test_it_is_read_only(carried: Carried, capsys: pytest.CaptureFixture[str]) -> None:
    """As a server is that was made a standby, or that its provider has locked."""
    name = carried.target.name
    carried.target.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    end_sessions(carried.target)
    before = carried.facts.position
    carried.write()
    carried.wait_for_trouble("read-only transaction", capsys)
    assert carried.facts.position == before
    with carried.target.connect() as conn:
        conn.execute("SET default_transaction_read_only = off")
        conn.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    end_sessions(carried.target)
    carried.compare(capsys)


def test_somebody_holds_a_lock(carried: Carried, capsys: pytest.CaptureFixture[str]) -> None:
    """For longer than we wait for one."""
    with carried.target.connect() as conn, conn.transaction():
        conn.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
        carried.write()
        carried.wait_for_trouble("lock timeout", capsys, tries=2)
    carried.compare(capsys)


def test_two_sessions_wait_for_each_other(carried: Carried, capsys: pytest.CaptureFixture[str]) -> None:
    """The server ends one of both transactions, and it is ours."""
    with carried.target.connect() as conn:
        conn.execute("SET deadlock_timeout = '1h'")  # so that it is the other one that finds it out
        with conn.transaction(force_rollback=True):
            conn.execute("UPDATE other SET t = 'held' WHERE id = 1")
            carried.write(
                "BEGIN; UPDATE item SET t = 'y' WHERE id = 1; UPDATE other SET t = 'y' WHERE id = 1; COMMIT"
            )
            wait_until(
                lambda: carried.target.rows(
                    "SELECT FROM pg_stat_activity WHERE datname = current_database()"
                    " AND application_name = 'pgsluice sink' AND wait_event_type = 'Lock'"
                )
            )
            conn.execute("UPDATE item SET t = 'held' WHERE id = 1")
            carried.wait_for_trouble("deadlock detected", capsys, tries=1)
    carried.compare(capsys)


def test_its_disk_fails(carried: Carried, capsys: pytest.CaptureFixture[str]) -> None:
    """EIO, as from a server whose storage is away for a moment; here, of a file that has no start."""
    reading = "pg_read_binary_file('/proc/self/mem') IS NOT NULL"
    carried.target.run(f"ALTER TABLE item ADD CONSTRAINT disk CHECK ({reading}) NOT VALID")
    carried.write()
    carried.wait_for_trouble("Input/output error", capsys)
    carried.target.run("ALTER TABLE item DROP CONSTRAINT disk")
    carried.compare(capsys)


def test_its_disk_is_full(
    carried: Carried, small_disk: SmallDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until somebody makes room; a table that has some goes on being written after it."""
    owner = carried.target.server.data_directory.stat()
    place = small_disk.directory_of(owner.st_uid, owner.st_gid)
    with contextlib.ExitStack() as afterwards:
        carried.target.run(f"CREATE TABLESPACE small LOCATION '{place}'")
        afterwards.callback(
            carried.target.run, "ALTER TABLE item SET TABLESPACE pg_default", "DROP TABLESPACE small"
        )
        carried.target.run("ALTER TABLE item SET TABLESPACE small")
        afterwards.callback(small_disk.resize, "200m")
        start = carried.source.rows("SELECT max(id) FROM item")[0][0]
        rows = f"SELECT g + {start}, repeat(md5(g::text), 30) FROM generate_series(1, 12000) g"
        carried.write(f"INSERT INTO item {rows}")
        carried.wait_for_trouble("No space left on device", capsys, tries=2)
        small_disk.resize("200m")
        assert carried.compare(capsys) > 12000


def test_it_is_down(
    carried: Carried, server: EmbeddedPostgres, proof: Proof, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written meanwhile waits on the disk, and not in the memory of the run."""
    carried.write(
        f"INSERT INTO other SELECT g, repeat('w', 1000) FROM generate_series(1001, {1000 + 8000}) g"
    )
    end = wal_end(carried.source)
    carried.write()
    wait_until(lambda: carried.facts.position >= end)  # the allocators have what they need by then
    server.stop()
    try:
        size = peak = psutil.Process().memory_info().rss
        before = carried.facts.position
        each = 2000
        for number in range(WAITING // MIB // 2):
            first = 10_000 + number * each
            rows = f"SELECT g, repeat(md5(g::text), 32) FROM generate_series({first}, {first + each - 1}) g"
            carried.write(f"INSERT INTO other {rows}")
            peak = max(peak, psutil.Process().memory_info().rss)
        carried.wait_for_trouble("can't be reached", capsys)
        log = sum(file.stat().st_size for file in (carried.state / "log").rglob("*") if file.is_file())
        assert log > WAITING
        assert carried.facts.position == before
    finally:
        server.start()
    assert peak - size < ALLOWED
    compared = carried.compare(capsys)
    assert compared > 30_000
    proof(
        f"{(peak - size) / MIB:.1f} MiB of memory more while {log / MIB:.0f} MiB waited in the log; "
        f"compared {compared} rows: equal"
    )
