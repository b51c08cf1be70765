"""A schema that gets another name while others write to its tables, which come under the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.source.postgres import LogOptions
from tests.schema_changes.test_postgres_target import Pair, require_equal, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.mark.both_versions
def test_while_others_write(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Transactions that had begun before, and end after, one or two renames."""
    pair = Pair(database, target_database)
    database.run("CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)", "CREATE TABLE s.u (id int)")
    run(pair, tmp_path)
    with database.connect() as early, database.connect() as later:
        for conn in (early, later):
            conn.autocommit = False
        early.execute("INSERT INTO s.t VALUES (1)")
        early.execute("INSERT INTO s.u VALUES (1)")
        database.run("INSERT INTO s.t VALUES (2)", "ALTER SCHEMA s RENAME TO s_2")
        early.execute("INSERT INTO s_2.t VALUES (3)")
        later.execute("INSERT INTO s_2.t VALUES (4)")
        early.commit()
        database.run("INSERT INTO s_2.t VALUES (5)", "ALTER SCHEMA s_2 RENAME TO s_3")
        later.execute("INSERT INTO s_3.u VALUES (6)")
        later.commit()
    run(pair, tmp_path)
    database.run("INSERT INTO s_3.t VALUES (7)")
    run(pair, tmp_path)
    assert require_equal(pair) == 8


@pytest.mark.both_versions
def test_over_many_segments(database: Database, target_database: Database, tmp_path: Path) -> None:
    """What a table is called is told once; each segment of the log has it, and where in the WAL that was."""
    database.run(
        *("CREATE SCHEMA s_a", "CREATE SCHEMA s_b"),
        *(
            "CREATE TABLE s_a.t (id int PRIMARY KEY, v text)",
            "CREATE TABLE s_b.t (id int PRIMARY KEY, v text)",
        ),
    )
    pair = Pair(database, target_database)
    run(pair, tmp_path)
    swap = [
        f"ALTER SCHEMA {old} RENAME TO {new}" for old, new in (("s_a", "s"), ("s_b", "s_a"), ("s", "s_b"))
    ]
    for start in range(0, 9000, 1000):
        database.run(
            f"INSERT INTO s_a.t SELECT g, repeat('x', 80) FROM generate_series({start}, {start + 999}) g",
            f"INSERT INTO s_b.t SELECT g, repeat('y', 80) FROM generate_series({start}, {start + 499}) g",
            *(swap if start % 2000 else ()),
        )
    source = PostgresSource(database.url)
    log = LogOptions(max_bytes=2 << 20)
    Pipeline(source, PostgresSink(target_database.url), state_dir=tmp_path, log=log).run(once=True)
    assert require_equal(pair) == 13_500
