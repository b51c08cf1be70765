"""One seed from the first copy to the last comparison: writers, a reader of the target, kills meanwhile."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from pgsluice.changelog.position import Lsn
from tests.faults.running import Runner
from tests.workload.acts import Lane
from tests.workload.compare import compare
from tests.workload.compare_duckdb import compare_duckdb
from tests.workload.invariant import READ, SUM, TILL, Watcher
from tests.workload.script import large_rows, make_world
from tests.workload.values import EXTENSIONS
from tests.workload.writers import Writers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pgsluice.embedded.server import StopMode
    from pgsluice.pipeline.config.targets import Decode
    from tests.fix_pg import Database

PIPELINE = "shop"  # what a Runner calls it
RESTARTS: Mapping[str, StopMode] = {"crash": "immediate", "restart": "fast"}  # of the target
KILLED = ("driver", "listener", "worker")  # what ``Trial.kills`` counts
_BATCHES = ("100KiB", "1MiB", "64MiB")
_PATIENCE = 180.0  # seconds; for what a busy machine may take long to do


class Trial:
    """
    A pipeline under a random workload, while a block runs.

    Args:
        seed: of tables, transactions and kills; only the moments of the kills are the machine's.
        source: on a server that may be restarted, if that is planned.
        target: the same.
        with_duckdb: whether a DuckDB file is a second target.
        decode: where batches are decoded; only with ``tasks`` there are workers to be killed.
    """

    def __init__(
        self,
        seed: int,
        source: Database,
        target: Database,
        place: Path,
        *,
        with_duckdb: bool = False,
        decode: Decode = "auto",
    ) -> None:
        self.seed = seed
        self._source, self._target = source, target
        self._dice = random.Random(f"{seed} kills")
        versions = [database.rows("SHOW server_version_num")[0][0] for database in (source, target)]
        self.about = f"seed {seed}, PostgreSQL {' to '.join(str(int(v) // 10000) for v in versions)}"
        world = make_world(
            seed,
            extensions=_shared_extensions(source, target),
            virtual=all(int(version) >= 180000 for version in versions),
            for_duckdb=with_duckdb,
        )
        source.run(*world.prepare)
        targets = [f"{{postgres: {{url: '{target.url}'}}}}"]
        self._file = place / "second.duckdb" if with_duckdb else None
        if self._file:
            targets.append(f"{{duckdb: {{path: {self._file}}}}}")
        batch = f"batch: {{decode: {decode}, max_bytes: {self._dice.choice(_BATCHES)}}}\n"
        lines = f"targets: [{', '.join(targets)}]"
        self._runner = Runner(source.url, place, targets=lines, settings=batch)
        done = self._runner.command("init")
        assert done.returncode == 0, done.stderr
        self._lane = Lane(8)
        self._block = contextlib.ExitStack()
        self.writers = Writers(source.url, world)
        self.watcher = Watcher(target.url, PIPELINE)
        self.happened: Counter[str] = Counter()
        self.compared = 0

    def __enter__(self) -> Trial:
        print(self.about)
        self._block.callback(self._runner.close)
        self._block.enter_context(self.writers)
        self._block.enter_context(self.watcher)
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)

    @property
    def kills(self) -> int:
        """How often something was killed."""
        return sum(self.happened[name] for name in KILLED)

    def plan(self, **events: int) -> list[str]:
        """
        Each event so many times, in some order.

        Workers die one after the other: Spark has to be started before, which takes longer than all the rest.
        """
        workers = ["worker"] * events.pop("worker", 0)
        others = [event for event, times in events.items() for _ in range(times)]
        self._dice.shuffle(others)
        place = self._dice.randrange(len(others) + 1)
        return [*others[:place], *workers, *others[place:]]

    def round(self, events: Sequence[str], changes: int) -> None:
        """Make so many changes while things are killed, and compare when all is quiet."""
        for event in events:
            self._keep_running()
            self.writers.go_on(changes // len(events))
            self._wait_for_some_moment()
            self._happen(event)
        self.writers.wait()
        self._keep_running()
        self._catch_up()
        self._compare()

    def stop(self) -> None:
        """End the run in order, and compare the DuckDB file: nobody else may look into it before that."""
        assert self._runner.stop() == 0, self._runner.tail()
        if self._file:
            self.compared += compare_duckdb(self._source, self._file)

    def summary(self) -> str:
        """What was done and compared."""
        tally, watcher = self.writers.tally, self.watcher
        happened = ", ".join(f"{name} {count}" for name, count in sorted(self.happened.items()))
        return (
            f"{self.about}: {tally.changes} changes in {tally.transactions} transactions"
            f" ({tally.refused} refused by the source); {happened}; {self.compared} rows compared: equal;"
            f" sum read {watcher.looks} times at {len(watcher.positions)} positions: constant"
        )

    def _keep_running(self) -> None:
        self._require_alive()
        process = self._runner.process
        if process is None or process.poll() is not None:
            self._runner.start()

    def _require_alive(self) -> None:
        """A run that ended was killed by us."""
        process = self._runner.process
        code = None if process is None else process.poll()
        assert code in (None, -signal.SIGKILL), f"the run ended by itself with {code}:\n{self._runner.tail()}"

    def _wait_for_some_moment(self) -> None:
        """In the middle of changes mostly; but also while everything is still starting."""
        if self._dice.random() < 0.6:
            self._runner.wait_for_changes(_PATIENCE)
            time.sleep(self._dice.random() * 0.5)
        else:
            time.sleep(self._dice.random() * 3)

    def _happen(self, event: str) -> None:
        if event == "driver":
            self._runner.kill_driver()
        elif event == "listener":
            self._until(self._runner.kill_listener, "no listener to kill")
        elif event == "worker":
            if not self._runner.kill_worker():
                self._source.run(large_rows(self._lane))
                self._until(self._runner.kill_worker, "no worker to kill")
        elif event == "large":  # what is begun before it is whole
            self._source.run(large_rows(self._lane))
        elif event in RESTARTS:
            # A target that was never reached is not waited for: its address may be wrong.
            self._until(lambda: self._runner.has_reached("postgres"), "the target was not reached")
            self._target.server.restart(RESTARTS[event])
        elif event == "source_crash":
            self._source.server.restart("immediate")
        else:
            raise AssertionError(event)
        self.happened[event] += 1

    def _until(self, reached: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            self._require_alive()
            assert time.monotonic() < deadline, f"{otherwise}:\n{self._runner.tail()}"
            time.sleep(0.1)  # to look for processes costs a busy machine more than it seems

    def _catch_up(self) -> None:
        """Until the targets hold everything that was committed."""
        before = self._source.rows("SELECT pg_current_wal_insert_lsn()::text")[0][0]
        self._source.run(f"UPDATE {TILL} SET amount = amount WHERE id = 1")  # ends after ``before``
        self._runner.wait_for_position(str(Lsn(Lsn.parse(before) + 1)), _PATIENCE)

    def _compare(self) -> None:
        assert self._source.rows(READ) == [(SUM,)]
        self.compared += compare(self._source, self._target)
        assert not self.watcher.wrong, f"{self.about}: {self.watcher.wrong[:5]}"


def _shared_extensions(*databases: Database) -> list[str]:
    available = [
        {name for (name,) in database.rows("SELECT name FROM pg_available_extensions")}
        for database in databases
    ]
    return [name for name in EXTENSIONS if all(name in found for found in available)]
