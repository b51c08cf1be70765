"""A table that somebody drops in the target is never made anew for the rows that come from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice.errors import TargetSchemaError
from pgsluice.pipeline.resync import ask_for_copy
from tests.pipeline.letters import DuckDB, Postgres, letters, pipeline, prepare, source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.pipeline.letters import Target


@pytest.fixture(params=["postgres", "duckdb"])
def target(request: pytest.FixtureRequest, target_database: Database, tmp_path: Path) -> Target:
    """A target that holds tables."""
    return Postgres(target_database) if request.param == "postgres" else DuckDB(tmp_path / "a.duckdb")


def same(source: Database, target: Target, *tables: str) -> None:
    """Both have the same rows."""
    for table in tables:
        assert target.rows(table) == source_rows(source, table)


@pytest.mark.parametrize("events", [True, False], ids=["apply", "ignore"])
def test_a_table_is_gone(database: Database, target: Target, tmp_path: Path, events: bool) -> None:
    """Each start stops there and says what to do, until the table is copied anew; then both are equal."""
    prepare(database, tmp_path, "item", "other")
    if not events:
        database.run("DROP EVENT TRIGGER pgsluice_ddl_command_end", "DROP EVENT TRIGGER pgsluice_sql_drop")
    database.run("INSERT INTO item SELECT i, i, 'a' FROM generate_series(1, 500) i")
    whole = {"mode": "snapshot_and_replication", "on_error": "stop"}
    pipeline(database, target, tmp_path, **whole).run(once=True)
    same(database, target, "item", "other")

    target.run("DROP TABLE public.item")
    database.run("INSERT INTO item VALUES (501, 1, 'x')", "INSERT INTO other VALUES (1, 1, 'x')")
    for _ in range(2):
        with pytest.raises(TargetSchemaError, match=r"public\.item is gone") as stopped:
            pipeline(database, target, tmp_path, **whole).run(once=True)
        assert "pgsluice resync public.item" in (stopped.value.remedy or "")

    ask_for_copy(database.url, "main", tmp_path / "state", ["target"], ("public", "item"))
    pipeline(database, target, tmp_path, **whole).run(once=True)
    same(database, target, "item", "other")
    database.run("UPDATE item SET n = n + 1 WHERE id < 100")
    pipeline(database, target, tmp_path, **whole).run(once=True)
    same(database, target, "item", "other")


def test_rows_of_a_table_that_is_gone_become_letters(
    database: Database, target: Target, tmp_path: Path
) -> None:
    """The other tables go on; a copy anew closes the letters, whose rows are in it."""
    prepare(database, tmp_path, "item", "other")
    database.run("INSERT INTO item VALUES (1, 1, 'a')")
    whole = {"mode": "snapshot_and_replication"}
    pipeline(database, target, tmp_path, **whole).run(once=True)
    target.run("DROP TABLE public.item")
    database.run("INSERT INTO item VALUES (2, 2, 'b')", "INSERT INTO other VALUES (1, 1, 'x')")
    pipeline(database, target, tmp_path, **whole).run(once=True)
    (letter,) = letters(tmp_path)
    assert (letter.table, letter.code) == ("public.item", "SLUICE-TARGET-SCHEMA")
    same(database, target, "other")

    ask_for_copy(database.url, "main", tmp_path / "state", ["target"], ("public", "item"))
    pipeline(database, target, tmp_path, **whole).run(once=True)
    same(database, target, "item", "other")
    assert letters(tmp_path) == []
