"""Commands that touch both tables that go on and tables that a filter leaves out: split by object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

pytestmark = pytest.mark.spark

TABLES = (
    "SELECT schemaname || '.' || tablename FROM pg_tables"
    " WHERE schemaname NOT IN ('pg_catalog', 'information_schema', 'pgsluice') ORDER BY 1"
)


class Run:
    """A pipeline into a PostgreSQL database, a DuckDB file and a feed; tables called hidden are left out."""

    def __init__(self, source: Database, target: Database, place: Path) -> None:
        self._source, self.target, self._place = source, target, place

    def once(self, *statements: str) -> None:
        """Run statements, and catch up."""
        self._source.run(*statements)
        targets = [
            {"name": "postgres", "postgres": {"url": self.target.url}},
            {"name": "duckdb", "duckdb": {"path": str(self._place / "target.duckdb")}},
            {"name": "files", "files": {"path": str(self._place / "feed"), "format": "jsonl"}},
        ]
        flags = {
            "source.postgres.url": self._source.url,
            "source.postgres.replication.schema_only_tables": ["public.empty"],
            "targets": targets,
            "state_dir": str(self._place / "state"),
            "modifiers": {"filter": {"exclude_tables": ["*.hidden", "*.hidden2"]}},
        }
        assert build_pipeline(load_config(None, {}, flags), init=True).run(once=True)

    def tables(self) -> list[str]:
        """Those of the PostgreSQL database."""
        return [name for (name,) in self.target.rows(TABLES)]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, which both databases have."""
        found = self.target.rows(f"SELECT * FROM {table} ORDER BY 1")
        with duckdb.connect(str(self._place / "target.duckdb"), read_only=True) as connection:
            assert connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() == found
        return found

    def passed(self) -> list[dict[str, Any]]:
        """The changes of the schema in the feed."""
        files = (self._place / "feed" / "pgsluice.schema_log").rglob("*.jsonl")
        found = [json.loads(line) for path in files for line in path.read_text().splitlines()]
        rows = [{column["name"]: column["value"] for column in line["columns"]} for line in found]
        return sorted(rows, key=lambda row: int(row["id"]))

    def require_no_word(self, word: str) -> None:
        """Of what is left out."""
        for path in (self._place / "feed").rglob("*"):
            assert path.is_dir() or word.encode() not in path.read_bytes(), path


@pytest.fixture
def run(database: Database, target_database: Database, tmp_path: Path, spark: SparkSession) -> Run:
    """After its first run."""
    made = Run(database, target_database, tmp_path)
    made.once(
        "CREATE TABLE kept (id int PRIMARY KEY)",
        "CREATE TABLE hidden (id int PRIMARY KEY, canary text)",
        "CREATE TABLE empty (id int PRIMARY KEY)",
        "INSERT INTO kept VALUES (1)",
        "INSERT INTO hidden VALUES (1)",
        "INSERT INTO empty VALUES (1)",
    )
    return made


@pytest.mark.both_versions
def test_one_command_for_both(run: Run) -> None:
    """Only what goes on is dropped, renamed and made in the targets."""
    run.once(
        "CREATE SCHEMA s CREATE TABLE kept (id int PRIMARY KEY) CREATE TABLE hidden (id int, canary int)",
        "INSERT INTO s.kept VALUES (7)",
        "ALTER SCHEMA s RENAME TO r",
        "INSERT INTO r.kept VALUES (8)",
        "CREATE TABLE hidden2 (id int PRIMARY KEY, canary text); ALTER TABLE kept ADD v text DEFAULT 'v'",
    )
    assert run.tables() == ["public.empty", "public.kept", "r.kept"]
    assert run.rows("r.kept") == [(7,), (8,)]
    assert run.rows("public.kept") == [(1, "v")]
    run.once(
        "DO $$ BEGIN ALTER TABLE hidden ADD canary2 text; ALTER TABLE kept ADD w int DEFAULT 5;"
        " CREATE INDEX canary3 ON hidden (canary); CREATE INDEX fine ON kept (v); END $$",
        "INSERT INTO kept VALUES (2, 'x', 6)",
    )
    assert run.rows("public.kept") == [(1, "v", 5), (2, "x", 6)]
    run.once("DROP TABLE kept, hidden", "DROP SCHEMA r CASCADE")
    assert run.tables() == ["public.empty"]
    run.require_no_word("canary")


def test_what_is_handed_on(run: Run) -> None:
    """Each object that goes on, with the text of a command that is about nothing else."""
    run.once("ALTER TABLE kept ADD v text", "DROP TABLE kept, hidden")
    changed, dropped = run.passed()
    assert changed["statement"] == "ALTER TABLE kept ADD v text"
    assert dropped["statement"] is None
    (change,) = json.loads(dropped["changes"])
    assert (change["before"]["name"], change["after"]) == ("kept", None)
    run.require_no_word("hidden")


def test_tables_without_rows(run: Run) -> None:
    """Of a table that comes by its definition, changes come too, and never a row."""
    run.once("ALTER TABLE empty ADD v text DEFAULT 'x'", "INSERT INTO empty VALUES (2)")
    assert run.target.rows("SELECT * FROM empty") == []
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'empty' ORDER BY 1"
    assert run.target.rows(columns) == [("id",), ("v",)]
    run.once("DROP TABLE empty, hidden")
    assert run.tables() == ["public.kept"]
