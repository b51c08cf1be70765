"""Random schema changes among rows, under kills: afterwards the target is the source. The soak runs it."""

from __future__ import annotations

import difflib
import random
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.faults.running import Runner
from tests.schema_changes.random_changes import RandomChanges
from tests.schema_changes.random_world import PREFIX
from tests.schema_changes.test_postgres_target import dump, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

TRANSACTIONS = 30  # between two kills
PAUSE = 0.05  # seconds between those that are made during the first copy: it takes about one
COPY_SECONDS = 1.5
_NAMED_NOT_NULL = re.compile(r'CONSTRAINT (?:"(?:[^"]|"")+"|.+?) NOT NULL')


def change_and_compare(
    seed: int, source: Database, target: Database, place: Path, *, kills: int, copy_kills: int = 2
) -> str:
    """
    One seed, from the first copy to the comparison; says what was done.

    Args:
        seed: of what is changed, and of the moments of the kills.
        source: an empty database.
        target: another one.
        place: for the pipeline's files, its lines, and the statements that were made.
        kills: after the first copy, of the driver and of the listener in turn.
        copy_kills: during it.
    """
    print(f"seed {seed}")
    changes, dice = RandomChanges(seed, source.url), random.Random(f"{seed} kills")
    lines = f"target: {{postgres: {{url: '{target.url}', schema_changes: apply}}}}"
    runner = Runner(source.url, place, targets=lines)
    try:
        changes.prepare()
        assert runner.command("init").returncode == 0
        in_copy = sum(_change_and_kill_copy(changes, dice, runner) for _ in range(copy_kills))
        with _changing(changes):
            _run_once(runner)
        for kill in range(kills):
            _change_and_kill(changes, dice, runner, "driver" if kill % 2 == 0 else "listener")
        runner.close()
        changes.go_on(TRANSACTIONS)
        _run_once(runner)
        changes.refresh_views()
        _run_once(runner)
    finally:
        runner.close()
        changes.close()
        (place / "statements.sql").write_text(";\n".join(changes.statements))  # for who looks into a failure
    statements, held = _catalog(source), rows(source, PREFIX)
    differences = [*difflib.unified_diff(statements, _catalog(target), "source", "target", n=0)]
    assert not differences, f"seed {seed}: " + "\n".join(differences)
    got = rows(target, PREFIX)
    others = {name: (held.get(name), got.get(name)) for name in held | got if held.get(name) != got.get(name)}
    assert not others, f"seed {seed}: {others}"
    return (
        f"seed {seed}: {changes.summary()}; {kills + copy_kills} kills, {in_copy} of them in the first copy;"
        f" compared {len(statements)} statements and {sum(map(len, held.values()))} rows: equal"
    )


def _run_once(runner: Runner) -> None:
    done = runner.command("run", "--once")
    with runner.lines.open("a") as lines:  # for who looks into a failure
        lines.write(done.stderr)
    assert done.returncode == 0, done.stderr


@contextmanager
def _changing(changes: RandomChanges) -> Iterator[None]:
    """Some transactions while the block runs, and after it as many as are left."""
    with ThreadPoolExecutor(1) as writers:
        going = writers.submit(changes.go_on, TRANSACTIONS, pause=PAUSE)
        yield
        going.result()


def _change_and_kill_copy(changes: RandomChanges, dice: random.Random, runner: Runner) -> bool:
    """
    A kill while tables are read, made, copied, or get their indexes, and while all of them change.

    False when it came too late for that.
    """
    runner.start()
    runner.wait_for_line("sink opened")
    with _changing(changes):
        time.sleep(dice.random() * COPY_SECONDS)
        assert runner.process is not None
        assert runner.process.poll() is None, f"the run ended by itself:\n{runner.tail()}"
        runner.kill_driver()
    return "position=new" in runner.said() and "tables copied" not in runner.said()


def _change_and_kill(changes: RandomChanges, dice: random.Random, runner: Runner, what: str) -> None:
    """Some transactions, and a kill while they are made, applied, or still waiting for the run to start."""
    code = None if runner.process is None else runner.process.poll()
    assert code in (None, -signal.SIGKILL), f"the run ended by itself with {code}:\n{runner.tail()}"
    if runner.process is None or code is not None:
        runner.start()
    before = dice.randrange(TRANSACTIONS)
    changes.go_on(before)
    if dice.random() < 0.7:
        runner.wait_for_changes()
    changes.go_on(TRANSACTIONS - before)
    time.sleep(dice.random())
    if what == "driver":
        runner.kill_driver()
    else:
        _kill_listener(runner)


def _kill_listener(runner: Runner) -> None:
    deadline = time.monotonic() + 60
    while not runner.kill_listener():
        assert time.monotonic() < deadline, f"no listener to kill:\n{runner.tail()}"
        time.sleep(0.05)


def _catalog(database: Database) -> list[str]:
    """
    The statements of pg_dump.

    From version 18 on what is NOT NULL has a name, which is not replicated.
    """
    return [_NAMED_NOT_NULL.sub("NOT NULL", each.rstrip(";")) for each in dump(database, PREFIX)]
