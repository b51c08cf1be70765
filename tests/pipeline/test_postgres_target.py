"""From one PostgreSQL to another: every type and every kind of change, on both versions crosswise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from pgsluice import BatchOptions, Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import RowRefusedError
from tests.fix_pg import create_database, drop_database
from tests.schema.type_cases import CASES, PREPARE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

DRIVER = BatchOptions(small_bytes=1 << 40)  # everything on the driver
TASKS = BatchOptions(
    decode="tasks", small_bytes=0, without_spark_bytes=0, max_bytes=200_000
)  # everything through tasks

ONE = """SELECT 1.0, '{"a": 1}'::json, true, 'x', '10.0.0.1'::inet FROM generate_series(1, 4)"""
OTHER = "SELECT 1.00, NULL, false, NULL, '10.0.0.0/8' FROM generate_series(1, 3)"


@pytest.fixture
def pair(request: pytest.FixtureRequest, versions: str) -> Iterator[tuple[Database, Database]]:
    """A source and a target."""
    source, target = (
        create_database(request.getfixturevalue(f"pg{version}")) for version in versions.split(" to ")
    )
    yield source, target
    drop_database(source)
    drop_database(target)


def contents(database: Database, table: str) -> list[bytes]:
    """The rows of a table as COPY prints them under pinned settings, sorted."""
    with database.connect() as conn:
        for setting in ("DateStyle = 'ISO, YMD'", "TimeZone = 'UTC'", "extra_float_digits = 3"):
            conn.execute(f"SET {setting}")
        with conn.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
            return sorted(b"".join(copy).splitlines())


def carry(source: Database, target: Database, state: Path, way: BatchOptions) -> None:
    """Bring the target up to date."""
    assert Pipeline(
        PostgresSource(source.url, keyless="full", init=True),
        PostgresSink(target.url),
        state_dir=state,
        batch=way,
    ).run(once=True)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("versions", "way"),
    [("15 to 15", DRIVER), ("15 to 18", DRIVER), ("18 to 15", DRIVER), ("18 to 18", TASKS)],
)
def test_every_type_and_change(
    pair: tuple[Database, Database], tmp_path: Path, spark: SparkSession, way: BatchOptions
) -> None:
    """Values of every type, awkward ones included, inserted, updated, moved, deleted and truncated."""
    source, target = pair
    tables = {f"t{number}": cases for number, cases in enumerate(CASES)}
    for database in pair:
        database.run(*PREPARE)
        for name, cases in tables.items():
            database.run(f"CREATE TABLE {name} (id int PRIMARY KEY, v {cases.type}, big text)")
        database.run("CREATE TABLE keyless (n numeric, j json, b bool, c char(5), i inet)")
        database.run("CREATE TABLE arrays (k int[] PRIMARY KEY, v text)")
    carry(source, target, tmp_path, way)
    with source.connect() as conn:
        for name, cases in tables.items():
            values = ", ".join(f"({n}, {value!s}::{cases.type})" for n, value in _literals(cases.values))
            conn.execute(f"INSERT INTO {name} (id, v) VALUES {values}, (-1, NULL)")
            conn.execute(f"UPDATE {name} SET big = repeat(md5(id::text), 200)")
            conn.execute(f"UPDATE {name} SET id = id + 1000 WHERE id % 2 = 0")
            conn.execute(f"DELETE FROM {name} WHERE id = 1")
        conn.execute("INSERT INTO arrays SELECT ARRAY[g, g], 'v' FROM generate_series(1, 9) g")
        for _ in range(3):
            conn.execute(f"INSERT INTO keyless {ONE} UNION ALL {OTHER}")
        conn.execute("DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless WHERE b LIMIT 5)")
        chosen = "ctid IN (SELECT ctid FROM keyless WHERE NOT b LIMIT 2)"
        conn.execute(f"UPDATE keyless SET c = 'y' WHERE {chosen}")
        conn.execute("UPDATE arrays SET v = 'w' WHERE k[1] > 3")
        conn.execute("DELETE FROM arrays WHERE k[1] = 7")
        conn.execute("TRUNCATE t0")
        conn.execute("INSERT INTO t0 (id) VALUES (7)")
    carry(source, target, tmp_path, way)
    compared = 0
    for name in [*tables, "keyless", "arrays"]:
        wanted = contents(source, name)
        assert contents(target, name) == wanted, name
        compared += len(wanted)
    print(f"compared {compared} rows of {len(tables) + 2} tables")
    assert compared > 200


def _literals(values: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(number, "'" + value.replace("'", "''") + "'") for number, value in enumerate(values)]


def test_a_table_without_a_key_and_narrower_columns(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """Rows are found as the target has stored them; one that is not there is an error, not a second row."""
    database.run("CREATE TABLE n (a int, v numeric, at timestamptz)")
    target_database.run("CREATE TABLE n (a int, v numeric(6,2), at timestamptz(0))")
    database.run(
        "INSERT INTO n VALUES (1, 1.005, '2020-01-01 00:00:00.4'), (2, 2, '2020-01-01'), (3, 3, '2020-01-01')"
    )
    carry(database, target_database, tmp_path, DRIVER)
    database.run("UPDATE n SET a = 10 WHERE a = 1", "DELETE FROM n WHERE a = 2")
    carry(database, target_database, tmp_path, DRIVER)
    assert target_database.rows("SELECT a, v::text FROM n ORDER BY a") == [(3, "3.00"), (10, "1.01")]
    target_database.run("DELETE FROM n WHERE a = 3")
    database.run("UPDATE n SET a = 4 WHERE a = 3")
    with pytest.raises(RowRefusedError, match="has no key, are not in the target"):
        carry(database, target_database, tmp_path, DRIVER)
    assert target_database.rows("SELECT a FROM n") == [(10,)]
