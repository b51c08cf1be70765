"""Tables that are made while a pipeline exists: by a query, in a publication of any scope, beside a run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.source.install import destroy
from tests.schema_changes.test_postgres_target import Pair, dump, require_equal, rows
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

pytestmark = pytest.mark.both_versions

SCOPES: dict[str, dict[str, Any]] = {
    "list": {},
    "schemas": {"schemas": ["s"]},
    "all": {"all_tables": True},
}
LARGE = 60_000  # rows: some MiB, so that a transaction is begun before it is whole


def pipeline(pair: Pair, place: Path, **scope: Any) -> Pipeline:
    """From one to the other."""
    source = PostgresSource(pair.source.url, keyless="full", init=True, **scope)
    return Pipeline(source, PostgresSink(pair.target.url), state_dir=place / "state")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("scope", SCOPES)
def test_tables_made_by_queries(
    database: Database, target_database: Database, tmp_path: Path, scope: str
) -> None:
    """
    Their rows come once. In a list the rows that a table begins with are not in the stream; elsewhere they
    stand there before the entry that makes the table.
    """
    pair = Pair(database, target_database)
    database.run(
        "CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY, a text)", "INSERT INTO s.t VALUES (1, 'x')"
    )
    pipeline(pair, tmp_path, **SCOPES[scope]).run(once=True)
    database.run(
        "CREATE TABLE s.made AS SELECT g AS id, 'row' || g AS a FROM generate_series(1, 100) g",
        "SELECT * INTO s.chosen FROM s.t",
        f"CREATE TABLE s.large AS SELECT g AS id, repeat('y', 100) AS a FROM generate_series(1, {LARGE}) g",
        "CREATE TABLE s.empty AS SELECT 1 AS id, 'z' AS a WITH NO DATA",
        "UPDATE s.made SET a = 'changed' WHERE id < 10",
        "DELETE FROM s.large WHERE id % 100 = 0",
        "INSERT INTO s.empty VALUES (1, 'one')",
        # The rows of one statement, between others of its transaction.
        "BEGIN; INSERT INTO s.t VALUES (2, 'y'); CREATE TABLE s.inside AS SELECT * FROM s.t;"
        " UPDATE s.inside SET a = 'inside'; INSERT INTO s.t VALUES (3, 'z'); COMMIT",
    )
    pipeline(pair, tmp_path, **SCOPES[scope]).run(once=True)
    compared = require_equal(pair)
    assert compared > LARGE * 0.99
    print(f"{compared} rows compared")


def test_a_table_joins_a_run(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Nothing has to be started again: the table, its rows and its changes come by themselves."""
    pair = Pair(database, target_database)
    database.run("CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)")
    running = pipeline(pair, tmp_path)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        wait_until(lambda: any(loop.is_streaming for loop in running.loops.values()))
        database.run(
            "CREATE TABLE s.new (id int PRIMARY KEY, a text)",
            "INSERT INTO s.new SELECT g, 'x' FROM generate_series(1, 500) g",
        )
        wait_until(lambda: "new" in str(dump(pair.target, "s")))
        wait_until(lambda: rows(pair.target, "s") == rows(pair.source, "s"))
        database.run("UPDATE s.new SET a = 'y' WHERE id < 100", "DELETE FROM s.new WHERE id > 400")
        wait_until(lambda: rows(pair.target, "s") == rows(pair.source, "s"))
    finally:
        running.stop()
        thread.join()
    assert require_equal(pair) == 400


@pytest.mark.parametrize("scope", SCOPES)
def test_writes_never_fail(database: Database, target_database: Database, tmp_path: Path, scope: str) -> None:
    """
    A published table without an identity would refuse UPDATE and DELETE: it gets FULL in the transaction that
    makes it so. What a table had before comes back with destroy.
    """
    pair = Pair(database, target_database)
    database.run(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int PRIMARY KEY, a text)",
        "CREATE TABLE s.late (id int PRIMARY KEY DEFERRABLE, a text)",
        "CREATE TABLE s.root (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)",
        "CREATE TABLE s.leaf PARTITION OF s.root FOR VALUES FROM (0) TO (10)",
        "INSERT INTO s.t VALUES (1, 'x'), (2, 'y')",
        "INSERT INTO s.root VALUES (1, 'x'), (2, 'y')",
    )
    pipeline(pair, tmp_path, **SCOPES[scope]).run(once=True)
    database.run(
        "ALTER TABLE s.t DROP CONSTRAINT t_pkey",
        "UPDATE s.t SET a = 'z' WHERE id = 1",
        "ALTER TABLE s.root DROP CONSTRAINT root_pkey",
        "UPDATE s.root SET a = 'z' WHERE id = 1",
        "CREATE TABLE s.more PARTITION OF s.root FOR VALUES FROM (10) TO (20)",
        "INSERT INTO s.root VALUES (11, 'w')",
        "UPDATE s.root SET a = 'v' WHERE id = 11",
        "CREATE TABLE s.bare (a int)",
        "INSERT INTO s.bare VALUES (1), (1), (2)",
        "UPDATE s.bare SET a = 3 WHERE a = 2",
        "CREATE TABLE s.deferred (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO s.deferred VALUES (1), (2)",
        "DELETE FROM s.deferred WHERE id = 1",
    )
    assert identity(database, "t") == identity(database, "leaf") == "f"
    pipeline(pair, tmp_path, **SCOPES[scope]).run(once=True)
    held = rows(pair.source, "s")  # what pg_dump says of NOT NULL differs by the server's version
    assert rows(pair.target, "s") == held
    print(f"{sum(map(len, held.values()))} rows compared in {len(held)} tables")
    database.run("ALTER TABLE s.t REPLICA IDENTITY NOTHING", "ALTER TABLE s.t ADD b int")
    assert identity(database, "t") == "n", "what somebody chose stays"
    destroy(database.url, "main")
    assert identity(database, "leaf") == "d"


def identity(database: Database, table: str) -> str:
    """pg_class.relreplident."""
    (found,) = database.rows(f"SELECT relreplident::text FROM pg_class WHERE oid = 's.{table}'::regclass")
    return str(found[0])
