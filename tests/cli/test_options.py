"""Options and other names of commands that no other test types, each once on a real command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pytest

from pgsluice.cli.main import main
from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.fixture
def shop(database: Database) -> Database:
    """Two schemas with a table each."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY)",
        "CREATE SCHEMA crm",
        "CREATE TABLE crm.lead (id int PRIMARY KEY)",
    )
    return database


def slots(database: Database) -> list[tuple[object, ...]]:
    """The slots of this database, and whether they follow a failover."""
    return database.rows(
        "SELECT slot_name::text, failover FROM pg_replication_slots WHERE database = current_database()"
    )


def publications(database: Database) -> list[str]:
    """The names of this database's publications."""
    return [row[0] for row in database.rows("SELECT pubname::text FROM pg_publication ORDER BY 1")]


def test_other_names_of_run_and_destroy(shop: Database, tmp_path: Path) -> None:
    """``start`` carries changes, with --mode, --slot and --publication; ``tear-down`` removes its own."""
    shop.run("CREATE PUBLICATION theirs FOR TABLE item")
    named = ["--mode", "replication", "--slot", f"mine_{shop.name}", "--publication", "theirs"]
    start = [*to_duckdb(tmp_path, shop.url, "start"), "--once", *named]
    assert main(start) == 0
    assert slots(shop) == [(f"mine_{shop.name}", False)]
    assert publications(shop) == ["pgsluice_schema", "theirs"]
    shop.run("INSERT INTO item VALUES (1)", "INSERT INTO crm.lead VALUES (2)")
    assert main(start) == 0
    with duckdb.connect(str(tmp_path / "x.duckdb")) as target:
        assert target.execute("FROM public.item").fetchall() == [(1,)]
        tables = target.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name <> 'pgsluice'")
        assert tables.fetchall() == [("item",)]
    assert main(["tear-down", "--source-url", shop.url, "--state-dir", str(tmp_path / "state")]) == 0
    assert slots(shop) == []
    assert publications(shop) == ["theirs"]


def test_a_mode_that_there_is_not(capsys: pytest.CaptureFixture[str], shop: Database, tmp_path: Path) -> None:
    """A slip in the mode is refused, and nothing is made."""
    assert main([*to_duckdb(tmp_path, shop.url), "--mode", "snapshots"]) == 2
    assert "source.postgres.mode" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_schemas_and_failover(capsys: pytest.CaptureFixture[str], shop: Database) -> None:
    """--schemas publishes what is in a schema, also later; --failover makes a slot that standbys keep."""
    asked = ["init", "--source-url", shop.url, "--schemas", "crm", "--failover", "--json"]
    assert main([*asked, "--slot", f"kept_{shop.name}", "--publication", "of_crm"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == ["crm.lead"]
    shop.run("CREATE TABLE crm.later (id int PRIMARY KEY)")
    assert shop.rows(
        "SELECT tablename::text FROM pg_publication_tables WHERE pubname = 'of_crm' AND schemaname = 'crm'"
        " ORDER BY 1"
    ) == [("later",), ("lead",)]
    assert slots(shop) == [(f"kept_{shop.name}", True)]


def test_upgrade(capsys: pytest.CaptureFixture[str], shop: Database) -> None:
    """A source that an older version prepared is changed only when that is asked for."""
    asked = ["init", "--source-url", shop.url]
    assert main(asked) == 0
    shop.run("DELETE FROM pgsluice.migration")  # as before the first one
    capsys.readouterr()
    assert main(asked) == 3
    assert "pgsluice init --upgrade" in capsys.readouterr().err
    assert main([*asked, "--upgrade"]) == 0
    assert "apply migration 1 (pipeline)" in capsys.readouterr().out
