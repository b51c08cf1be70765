"""What a target gets besides rows: sequences that follow, definitions alone; and what it may not be."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import ConfigError
from pgsluice.pipeline import sequences
from pgsluice.schema.renames import Renames
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


def pipeline(source: Database, target: Database, tmp_path: Path, **options: object) -> Pipeline:
    """From one database to another."""
    return Pipeline(
        PostgresSource(source.url, init=True, **options),  # type: ignore[arg-type]
        PostgresSink(target.url),
        state_dir=tmp_path / "state",
    )


@pytest.fixture
def counted(database: Database) -> Database:
    """Sequences of every kind."""
    database.run(
        "CREATE TABLE item (id serial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY)",
        "INSERT INTO item SELECT FROM generate_series(1, 30)",
        "CREATE SEQUENCE free START 100",
        "CREATE SEQUENCE down INCREMENT -2 START -10",
        "CREATE SEQUENCE unused",
        'CREATE SEQUENCE "Odd name"',
        "SELECT nextval('free'), nextval('down'), nextval('\"Odd name\"')",
    )
    return database


VALUES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1"


def test_sequences_follow_until_a_run_has_caught_up(
    counted: Database, target_database: Database, tmp_path: Path
) -> None:
    """Owned and not owned, upwards and downwards; they never go back."""
    pipeline(counted, target_database, tmp_path).run(once=True)
    assert target_database.rows(VALUES) == counted.rows(VALUES)
    counted.run(
        "INSERT INTO item SELECT FROM generate_series(1, 5)",
        "SELECT nextval('free'), nextval('down'), nextval('unused')",
    )
    pipeline(counted, target_database, tmp_path).run(once=True)
    assert target_database.rows(VALUES) == counted.rows(VALUES)
    target_database.run("INSERT INTO item DEFAULT VALUES")  # meets no key that was streamed
    assert target_database.rows("SELECT max(id) FROM item") == [(36,)]
    target_database.run("SELECT setval('free', 5000), setval('down', -5000)")
    pipeline(counted, target_database, tmp_path).run(once=True)
    assert dict(target_database.rows(VALUES))["free"] == 5000
    assert dict(target_database.rows(VALUES))["down"] == -5000


def test_sequences_follow_while_a_run_goes_on(
    counted: Database, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a change in the stream, too."""
    monkeypatch.setattr(sequences, "_SECONDS", 0.2)
    running = pipeline(counted, target_database, tmp_path)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        for wanted in (777, 888):
            counted.run(f"SELECT setval('free', {wanted})")
            for _ in range(300):
                if (
                    target_database.rows("SELECT count(*) FROM pg_sequences WHERE sequencename = 'free'")
                    == [(1,)]
                    and dict(target_database.rows(VALUES))["free"] == wanted
                ):
                    break
                threading.Event().wait(0.1)
            assert dict(target_database.rows(VALUES))["free"] == wanted
    finally:
        running.stop()
        thread.join()


def test_definitions_alone(database: Database, target_database: Database, tmp_path: Path) -> None:
    """A pattern for many, and the one that is named after all; nothing of them is published."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY)",
        "CREATE TABLE log_a (id int PRIMARY KEY REFERENCES item, t text)",
        "CREATE SCHEMA audit",
        "CREATE TABLE audit.a (id int PRIMARY KEY)",
        "CREATE TABLE audit.kept (id int PRIMARY KEY)",
        "INSERT INTO item VALUES (1), (2)",
        "INSERT INTO log_a VALUES (1, 'x')",
        "INSERT INTO audit.a VALUES (1)",
        "INSERT INTO audit.kept VALUES (1)",
    )
    chosen = {"tables": ["*.*", "audit.kept"], "schema_only_tables": ["log_a", "audit.*"]}
    pipeline(database, target_database, tmp_path, **chosen).run(once=True)
    database.run("INSERT INTO log_a VALUES (2, 'y')", "INSERT INTO item VALUES (3)")
    pipeline(database, target_database, tmp_path).run(once=True)
    for table in ("item", "audit.kept"):
        assert source_rows(target_database, table) == source_rows(database, table) != []
    for table in ("log_a", "audit.a"):
        assert source_rows(target_database, table) == []
    assert target_database.rows("SELECT count(*) FROM pg_constraint WHERE contype = 'f'") == [(1,)]


def test_nothing_left_to_replicate(database: Database, target_database: Database, tmp_path: Path) -> None:
    """A mistyped name takes no tables off; it is an error that names the nearest."""
    database.run("CREATE TABLE orders (id int PRIMARY KEY)")
    pipeline(database, target_database, tmp_path).run(once=True)
    with pytest.raises(ConfigError, match=r"nothing is left to replicate: .*nearest is public\.orders"):
        pipeline(database, target_database, tmp_path, tables=["orderz"]).run(once=True)
    assert database.rows("SELECT tablename FROM pg_publication_tables WHERE schemaname = 'public'") == [
        ("orders",)
    ]


def test_the_source_is_no_target(database: Database, tmp_path: Path) -> None:
    """It is refused before anything is made; under other names it is one."""
    database.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1), (2)")
    with pytest.raises(ConfigError, match="is the source itself: database"):
        pipeline(database, database, tmp_path).run(once=True)
    assert database.rows("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgsluice'") == [(0,)]
    assert not (tmp_path / "state").exists()
    moved = Pipeline(
        PostgresSource(database.url, tables=["public.*"], init=True),
        PostgresSink(database.url),
        state_dir=tmp_path / "state",
        renames=Renames.parse({"public": "archive"}, {}),
    )
    moved.run(once=True)
    assert source_rows(database, "archive.item") == source_rows(database, "item")
