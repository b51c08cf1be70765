"""Rows that a target refuses are put aside, the others flow, and a replay brings both sides together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pipeline.letters import (
    DRIVER,
    EACH,
    TASKS,
    DuckDB,
    Postgres,
    Target,
    ask,
    ids,
    letters,
    pipeline,
    prepare,
    source_rows,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.fixture(params=["postgres", "duckdb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A target of each kind that takes single rows."""
    if request.param == "duckdb":
        return DuckDB(tmp_path / "x.duckdb")
    return Postgres(request.getfixturevalue("target_database"))


def same(source: Database, target: Target, *tables: str) -> None:
    """Compare tables row by row."""
    compared = 0
    for table in tables or ("item",):
        wanted = source_rows(source, table)
        assert target.rows(table) == wanted, table
        compared += len(wanted)
    print(f"compared {compared} rows")


def test_a_refused_row_among_others(database: Database, target: Target, tmp_path: Path) -> None:
    """It waits with all that later happens to it; the rest is applied; after mending, a replay is enough."""
    prepare(database, tmp_path)
    target.refuse()
    database.run(
        "INSERT INTO item SELECT g, CASE WHEN g = 40 THEN 13 ELSE 0 END, 'x' FROM generate_series(1, 99) g",
        "UPDATE item SET n = 1 WHERE id IN (40, 41)",
        "UPDATE item SET id = 400 WHERE id = 40",
        "UPDATE item SET n = 2 WHERE id IN (400, 42)",
        "DELETE FROM item WHERE id = 50",
    )
    assert pipeline(database, target, tmp_path, batch=EACH).run(once=True)
    found = letters(tmp_path)
    assert ids(found) == [("I", ["40"]), ("U", ["40"]), ("U", ["40", "400"]), ("U", ["400"])]
    first, _, moved, _ = found
    assert [letter.waits_for for letter in found] == [None, first.id, first.id, moved.id]
    assert found[0].table == "public.item"
    wanted = [row for row in source_rows(database, "item") if row[0] != 400]
    assert target.rows("item") == wanted
    database.run("DELETE FROM item WHERE id = 400", "INSERT INTO item VALUES (40, 7, 'new')")
    assert pipeline(database, target, tmp_path, batch=EACH).run(once=True)
    assert ids(letters(tmp_path))[4:] == [("D", ["400"]), ("I", ["40"])]
    target.mend()
    ask(tmp_path)
    assert pipeline(database, target, tmp_path, batch=EACH).run(once=True)
    assert letters(tmp_path) == []
    assert {letter.status for letter in letters(tmp_path, closed=True)} == {"replayed"}
    same(database, target)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("way", [DRIVER, TASKS], ids=["driver", "tasks"])
def test_in_the_middle_of_a_large_batch(
    database: Database, target: Target, tmp_path: Path, way: object
) -> None:
    """A few of twenty thousand rows, in one transaction, in tables with and without a key."""
    prepare(database, tmp_path, "item", "bag", "other")
    target.refuse("item", "bag")
    with database.connect() as conn, conn.transaction():
        for table in ("item", "bag", "other"):
            conn.execute(
                f"INSERT INTO {table} SELECT g, CASE WHEN g % 7001 = 77 THEN 13 ELSE g END, 'text'"
                " FROM generate_series(1, 20000) g WHERE g <> 13"
            )
        conn.execute("UPDATE bag SET n = 5 WHERE id = 77")
        conn.execute("DELETE FROM bag WHERE id = 78")
    assert pipeline(database, target, tmp_path, batch=way).run(once=True)
    found = letters(tmp_path)
    print(f"{len(found)} letters")
    assert len(found) == 3 + 3 + 1
    refused = {77, 7078, 14079}
    for table in ("item", "bag"):
        wanted = [row for row in source_rows(database, table) if row[0] not in refused]
        assert target.rows(table) == wanted
    same(database, target, "other")
    target.mend("item", "bag")
    ask(tmp_path)
    assert pipeline(database, target, tmp_path, batch=way).run(once=True)
    assert letters(tmp_path) == []
    same(database, target, "item", "bag", "other")
