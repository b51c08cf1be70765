"""Schema changes and rows under kills: afterwards the target is the source, with nothing done twice."""

from __future__ import annotations

import os
import random
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from pgsluice.schema.store import SchemaStore
from tests.faults.running import Runner
from tests.schema_changes.test_postgres_target import dump, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proof import Proof

KILLS = 5


@pytest.mark.timeout(300)
def test_killed_between_changes(
    database: Database, target_database: Database, tmp_path: Path, proof: Proof
) -> None:
    """The driver and the listener die while columns come, go and change their names among rows."""
    seed = int(os.environ.get("PGSLUICE_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    dice = random.Random(seed)
    database.run(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int PRIMARY KEY, c0 text DEFAULT 'x')",
        "INSERT INTO s.t SELECT generate_series(1, 500)",
    )
    target = f"target: {{postgres: {{url: '{target_database.url}', schema_changes: apply}}}}"
    runner = Runner(database.url, tmp_path, targets=target)
    assert runner.command("init").returncode == 0
    changes = 0
    try:
        for kill in range(KILLS):
            runner.start()
            runner.wait_for_changes()
            for _ in range(12):
                database.run(_change(database, dice))
                changes += 1
            runner.kill_driver()
            if kill % 2:
                runner.kill_listener()
        done = runner.command("run", "--once")
        assert done.returncode == 0, done.stderr
    finally:
        runner.close()
    assert dump(target_database, "s") == dump(database, "s")
    held = rows(database, "s")
    assert rows(target_database, "s") == held
    _require_counted_once(database, tmp_path)
    compared = sum(map(len, held.values()))
    proof(f"seed {seed}: {changes} changes, {KILLS} kills, compared {compared} rows: equal")


def _require_counted_once(database: Database, place: Path) -> None:
    """Every change has one number, in the order of commits, and the last one is acknowledged."""
    with closing(SchemaStore(place / "state" / "log" / "schema.db")) as store:
        entries = store.history.entries()
    noted = database.rows("SELECT id FROM pgsluice.schema_log ORDER BY id")
    assert [(each.entry.id,) for each in entries] == noted  # one session made them all
    versions = [each.versions["s"] for each in entries if each.versions]
    assert versions == [*range(1, len(versions) + 1)]
    last = [each.entry.id for each in entries if each.versions][-1]
    assert database.rows("SELECT schema, version, log_id FROM pgsluice.schema_ack") == [
        ("s", len(versions), last)
    ]


def _change(database: Database, dice: random.Random) -> str:
    """Some statements on the table as it is now, in one transaction."""
    found = database.rows(
        "SELECT attname FROM pg_attribute"
        " WHERE attrelid = 's.t'::regclass AND attnum > 1 AND NOT attisdropped"
    )
    columns = [name for (name,) in found]
    new = f"c{dice.randrange(10**6)}"
    first = dice.randrange(10**6) + 1000
    possible = [
        f"ALTER TABLE s.t ADD {new} int DEFAULT {first}",
        f"ALTER TABLE s.t ADD {new} timestamptz DEFAULT now()",
        f"INSERT INTO s.t (id) SELECT generate_series({first}, {first + 20}) ON CONFLICT DO NOTHING",
        f"DELETE FROM s.t WHERE id % 17 = {dice.randrange(17)}",
        f"CREATE TABLE s.{new} (id int PRIMARY KEY); INSERT INTO s.{new} VALUES (1)",
        f"CREATE VIEW s.v{new} AS SELECT id FROM s.t",
    ]
    if columns:
        column = dice.choice(columns)
        possible += [
            f"ALTER TABLE s.t RENAME {column} TO {new}",
            f"ALTER TABLE s.t DROP {column}; INSERT INTO s.t (id) VALUES ({first}) ON CONFLICT DO NOTHING",
            f"UPDATE s.t SET id = id WHERE id < 100; ALTER TABLE s.t ALTER {column} SET DEFAULT NULL",
        ]
    return dice.choice(possible)
