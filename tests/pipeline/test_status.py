"""What ``status`` says of a pipeline that lags, is full, can't connect, or is about to lose its slot."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import LogOptions, MemorySink, Pipeline, PostgresSource
from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn
from pgsluice.cli.main import main
from pgsluice.embedded import EmbeddedPostgres
from pgsluice.errors import SluiceError, TargetError, TargetUnavailableError
from pgsluice.pipeline.status import Status, collect
from pgsluice.sinks.memory import MemoryStore
from pgsluice.state.requests import CopyRequest, Requests
from tests.fix_pg import Database
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.sinks.base import Batch
    from tests.fix_proxy import DatabaseProxy

WAL_KEPT = {"fsync": "off", "max_slot_wal_keep_size": "1MB"}


@pytest.fixture
def forgetful() -> Iterator[Database]:
    """A prepared database on a server that keeps next to no WAL for slots."""
    directory = Path(tempfile.mkdtemp(prefix="pgsluice-test-"))
    try:
        with EmbeddedPostgres(directory, WAL_KEPT) as server:
            made = Database("postgres", server)
            made.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
            PostgresSource(made.url).init("main")
            yield made
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def table(database: Database) -> Database:
    """A prepared database with one table."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    PostgresSource(database.url).init("main")
    return database


class Running:
    """A pipeline in a thread."""

    def __init__(self, url: str, state: Path, **options: Any) -> None:
        self._pipeline = Pipeline(PostgresSource(url), MemorySink(MemoryStore()), state_dir=state, **options)
        self._thread = threading.Thread(target=self._pipeline.run)

    def __enter__(self) -> Pipeline:
        self._thread.start()
        wait_until(lambda: self._pipeline.loops)
        return self._pipeline

    def __exit__(self, *_: object) -> None:
        self._pipeline.stop()
        self._thread.join()


def codes(status: Status) -> list[str]:
    """The codes of the problems."""
    return [problem.code for problem in status.problems]


def test_the_lag_of_a_slot_that_nobody_reads(
    table: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was written and not confirmed is counted in bytes of WAL, as the server counts it."""
    before = collect("main", table.url, tmp_path / "log").slot["lag_bytes"]
    table.run("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 1000) g")
    found = collect("main", table.url, tmp_path / "log")
    assert found.slot["lag_bytes"] >= before + 100_000
    assert found.slot["held_bytes"] >= found.slot["lag_bytes"]
    assert codes(found) == []
    asked = ["status", "--source-url", table.url, "--state-dir", str(tmp_path)]
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["slot"]["lag_bytes"] >= before + 100_000
    assert main(asked) == 0
    assert "KiB behind" in capsys.readouterr().out


def test_a_slot_at_risk_and_a_slot_that_is_lost(forgetful: Database, tmp_path: Path) -> None:
    """First the WAL may go at the next checkpoint, then it is gone: each is named, with what to do."""

    def write_wal() -> None:
        forgetful.run(
            "SELECT pg_logical_emit_message(false, 'x', repeat('x', 100000))", "SELECT pg_switch_wal()"
        )

    assert codes(collect("main", forgetful.url, tmp_path / "log")) == []
    for _ in range(4):
        write_wal()
    (problem,) = collect("main", forgetful.url, tmp_path / "log").problems
    assert problem.code == "SLUICE-SLOT-AT-RISK"
    assert "max_slot_wal_keep_size" in problem.remedy
    forgetful.run("CHECKPOINT")
    (problem,) = collect("main", forgetful.url, tmp_path / "log").problems
    assert problem.code == "SLUICE-SLOT-LOST"
    assert "pgsluice destroy, then init" in problem.remedy


def test_a_full_log(table: Database, tmp_path: Path) -> None:
    """While a consumer holds a log at its bound, the log is the problem and the slot has no reader."""
    state = tmp_path / "state"
    Consumers(state / "log").release("slow", Lsn(0))
    with Running(table.url, state, log=LogOptions(max_bytes=100_000)):
        table.run("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 3000) g")
        # The source is looked at before the log: the first look may still find the connection.
        wait_until(
            lambda: (
                {"SLUICE-LOG-FULL", "SLUICE-SLOT-IDLE"}
                <= set(codes(collect("main", table.url, state / "log")))
            )
        )
    assert collect("main", table.url, state / "log").listener["state"] == "stopped"


def test_a_source_that_can_not_be_reached(table: Database, proxy: DatabaseProxy, tmp_path: Path) -> None:
    """A listener that tries again is named with the reason; asked through the same way, so is the source."""
    state = tmp_path / "state"
    with Running(proxy.url, state):
        assert codes(collect("main", table.url, state / "log")) == []
        proxy.refuse()
        found = wait_until(
            lambda: (
                (now := collect("main", table.url, state / "log")).listener["state"] == "reconnecting" and now
            )
        )
        assert "SLUICE-SOURCE-UNREACHABLE" in codes(found)
        assert found.listener["reason"]
        assert codes(collect("main", proxy.url, state / "log")).count("SLUICE-SOURCE-UNREACHABLE") == 2
        proxy.accept()


def test_a_log_of_another_pipeline_is_not_mixed_in(
    table: Database, target_database: Database, tmp_path: Path
) -> None:
    """The log of another database's slot is named as such; its sinks and positions say nothing here."""
    state = tmp_path / "state"
    with Running(table.url, state):
        pass
    target_database.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    PostgresSource(target_database.url).init("main")
    found = collect("main", target_database.url, state / "log")
    assert codes(found) == ["SLUICE-WRONG-SYSTEM"]
    assert "--name" in found.problems[0].remedy
    assert (found.sinks, found.log) == ([], {})
    assert [sink.name for sink in collect("main", table.url, state / "log").sinks] == ["target"]


def test_a_table_that_is_to_be_copied_anew(
    table: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request that nobody has taken up yet is shown."""
    state = tmp_path / "state"
    Requests(state).ask(CopyRequest("replica", "public", "t"))
    assert main(["status", "--source-url", table.url, "--state-dir", str(state)]) == 0
    assert "resync    replica: public.t\n" in capsys.readouterr().out


def test_a_target_that_does_not_take_a_batch(table: Database, tmp_path: Path) -> None:
    """Why it is tried again, or why the loop has ended; until the next batch is applied."""

    class Away(MemorySink):
        error: SluiceError | None = TargetUnavailableError("the target is away")

        def apply(self, batch: Batch) -> None:
            if self.error is not None:
                raise self.error
            super().apply(batch)

    def problems() -> list[str]:
        return [problem.what for problem in collect("main", table.url, tmp_path / "log").problems]

    def run(sink: MemorySink) -> Pipeline:
        return Pipeline(PostgresSource(table.url), sink, state_dir=tmp_path)

    sink = Away(MemoryStore())
    running = run(sink)
    thread = threading.Thread(target=running.run)
    thread.start()
    table.run("INSERT INTO t VALUES (1, 'x')")
    try:
        wait_until(lambda: problems() == ["target tries again: the target is away"])
        sink.error = None
        wait_until(lambda: problems() == [])
    finally:
        running.stop()
        thread.join()
    sink.error = TargetError("it is full", remedy="Empty it")
    table.run("INSERT INTO t VALUES (2, 'x')")
    with pytest.raises(TargetError, match="it is full"):
        run(sink).run(once=True)
    assert problems() == ["target has stopped: it is full"]
    sink.error = None
    run(sink).run(once=True)
    assert problems() == []


def test_from_when_on_a_target_is_consistent(
    table: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where its tables were copied, once its stream has come there; not before."""
    table.run("INSERT INTO t VALUES (1, 'a')")
    state = tmp_path / "state"
    sink = MemorySink(MemoryStore())
    assert Pipeline(PostgresSource(table.url), sink, state_dir=state).run(once=True)
    (found,) = collect("main", table.url, state / "log").sinks
    assert found.consistent
    assert found.consistent_from is not None
    assert Lsn.parse(found.position) >= Lsn.parse(found.consistent_from)
    Consumers(state / "log").release("target", Lsn(Lsn.parse(found.consistent_from) - 1))
    (before,) = collect("main", table.url, state / "log").sinks
    assert before.consistent is False
    flags = ("--source-url", table.url, "--state-dir", str(state))
    main(["status", *flags])
    assert f"from {found.consistent_from}" in capsys.readouterr().out
