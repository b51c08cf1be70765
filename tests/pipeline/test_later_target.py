"""A second target that is added later, and one that is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from pgsluice import DuckDBSink, LogOptions, PostgresSink
from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.segment import segments
from pgsluice.cli.main import main
from tests.pipeline.test_copy import pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

MIB = 1 << 20
SMALL = LogOptions(max_bytes=16 * MIB)  # in segments of 2 MiB
ROWS = "SELECT id, n, t FROM {} ORDER BY id, n, t"
TABLES = ("item", "bag")


def compare(source: Database, *found: dict[str, list[tuple[Any, ...]]]) -> None:
    """Compare what targets hold with the source, row by row."""
    compared = 0
    for table in TABLES:
        wanted = source.rows(ROWS.format(table))
        for held in found:
            assert held[table] == wanted, table
            compared += len(wanted)
    print(f"compared {compared} rows")


def in_postgres(target: Database) -> dict[str, list[tuple[Any, ...]]]:
    """What another PostgreSQL holds."""
    return {table: target.rows(ROWS.format(table)) for table in TABLES}


def in_duckdb(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What the file holds."""
    with duckdb.connect(str(file), read_only=True) as conn:
        return {table: conn.execute(ROWS.format(f"public.{table}")).fetchall() for table in TABLES}


def test_a_file_beside_a_database(database: Database, target_database: Database, tmp_path: Path) -> None:
    """The first target is not copied again, both are equal; forgotten, the log is kept for it no longer."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY, n int, t text)",
        "INSERT INTO item SELECT g, 0, repeat('i', 100) FROM generate_series(1, 2000) g",
        "CREATE TABLE bag (id int, n int, t text)",
        "INSERT INTO bag SELECT g % 10, 0, 'b' FROM generate_series(1, 500) g",
    )
    file, log = tmp_path / "second.duckdb", tmp_path / "state" / "log"
    first = {"first": PostgresSink(target_database.url)}
    both = {**first, "second": DuckDBSink(file)}

    def run(sinks: dict[str, Any]) -> None:
        assert pipeline(database, sinks, tmp_path, log=SMALL).run(once=True)

    run(first)
    calm = "SELECT ctid, xmin::text FROM {} WHERE id > 5"  # other ones, if they were written again
    before = [target_database.rows(calm.format(table)) for table in TABLES]
    database.run("UPDATE item SET n = 1 WHERE id <= 5", "DELETE FROM bag WHERE id = 3 AND ctid < '(0,60)'")
    run(both)
    compare(database, in_postgres(target_database), in_duckdb(file))
    database.run(
        "INSERT INTO bag SELECT 1, 1, 'both' FROM generate_series(1, 3)", "UPDATE item SET n = 2 WHERE id = 1"
    )
    run(both)
    compare(database, in_postgres(target_database), in_duckdb(file))
    assert [target_database.rows(calm.format(table)) for table in TABLES] == before
    # From here on the first one is not in the configuration any more.
    second = {"second": DuckDBSink(file)}
    held = LogReader(log).first_lsn
    for number in range(4):
        database.run(
            f"INSERT INTO item SELECT g, 0, repeat('l', 1500) FROM generate_series({number * 1500 + 3000},"
            f" {number * 1500 + 4499}) g"
        )
    run(second)
    kept = segments(log)
    assert len(kept) >= 4
    assert LogReader(log).first_lsn == held
    assert main(["targets", "forget", "first", "--state-dir", str(tmp_path / "state")]) == 0
    run(second)
    assert len(segments(log)) <= 2  # the one that is written, and the last that is full
    assert not any(segment.data.exists() for segment in kept[:-2])
    assert LogReader(log).first_lsn > held
    compare(database, in_duckdb(file))
