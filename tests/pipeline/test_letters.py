"""Rows that a target refuses are put aside, the others flow, and a replay brings both sides together."""

from __future__ import annotations

import json
import os
import random
import threading
from typing import TYPE_CHECKING

import pytest

from pgsluice import LogOptions, Pipeline, PostgresSink, PostgresSource
from pgsluice.changelog.consumers import Consumers
from pgsluice.errors import RowRefusedError, TargetSchemaError, TargetUnavailableError, TooManyLettersError
from pgsluice.pipeline.resync import ask_for_copy
from pgsluice.pipeline.status import collect
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
from tests.source.listening import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.sinks.base import Batch
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


def test_a_row_that_stops_the_stream(database: Database, target: Target, tmp_path: Path) -> None:
    """With ``on_error: stop`` the error names table, position and remedy; nothing of the batch is applied."""
    prepare(database, tmp_path)
    target.refuse()
    database.run("INSERT INTO item SELECT g, g, 'secret' FROM generate_series(1, 40) g")
    with pytest.raises((RowRefusedError, TargetSchemaError), match=r"public\.item.*change 13 of") as caught:
        pipeline(database, target, tmp_path, on_error="stop").run(once=True)
    assert caught.value.remedy
    assert caught.value.fields["position"][1] == 13
    assert "secret" not in str(caught.value)
    assert target.rows("item") == []
    assert letters(tmp_path) == []


def test_a_whole_table_that_is_refused(
    database: Database, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the bound is no matter of single rows: the run stops, and no letter and no row is kept."""
    monkeypatch.setattr("pgsluice.pipeline.letters.desk.MAX_OPEN", 20)
    prepare(database, tmp_path)
    target.refuse()
    database.run("INSERT INTO item SELECT g, 13, 'x' FROM generate_series(1, 20) g")
    assert pipeline(database, target, tmp_path).run(once=True)
    assert len(letters(tmp_path)) == 20
    database.run("INSERT INTO item SELECT g, g % 14, 'x' FROM generate_series(21, 60) g")
    with pytest.raises(TooManyLettersError, match=r"21 dead letters, and 20 is the most.*public\.item"):
        pipeline(database, target, tmp_path).run(once=True)
    assert len(letters(tmp_path)) == 20
    assert target.rows("item") == []
    target.mend()
    ask(tmp_path)
    assert pipeline(database, target, tmp_path).run(once=True)
    assert letters(tmp_path) == []
    same(database, target)


def test_too_many_changes_of_a_refused_row(
    database: Database, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait count too, also where ``on_error`` is ``stop`` by now."""
    monkeypatch.setattr("pgsluice.pipeline.letters.desk.MAX_OPEN", 3)
    target = Postgres(target_database)
    prepare(database, tmp_path)
    target.refuse()
    database.run("INSERT INTO item VALUES (1, 13, 'x')")
    assert pipeline(database, target, tmp_path).run(once=True)
    database.run(*[f"UPDATE item SET t = '{number}'" for number in range(2)])
    assert pipeline(database, target, tmp_path, on_error="stop").run(once=True)
    assert len(letters(tmp_path)) == 3
    database.run("UPDATE item SET t = 'last'")
    with pytest.raises(TooManyLettersError, match="wait behind letters of the same rows"):
        pipeline(database, target, tmp_path, on_error="stop").run(once=True)
    target.mend()
    ask(tmp_path)
    assert pipeline(database, target, tmp_path, on_error="stop").run(once=True)
    same(database, target)


def test_a_table_that_is_emptied(database: Database, target: Target, tmp_path: Path) -> None:
    """An applied TRUNCATE closes what was refused before it, also in the same batch, and ends the waiting."""
    prepare(database, tmp_path, "item", "other")
    target.refuse("item", "other")
    database.run("INSERT INTO item VALUES (1, 13, 'x'), (2, 2, 'y')", "INSERT INTO other VALUES (1, 13, 'x')")
    assert pipeline(database, target, tmp_path).run(once=True)
    assert [letter.table for letter in letters(tmp_path)] == ["public.item", "public.other"]
    with database.connect() as conn, conn.transaction():
        conn.execute("UPDATE item SET t = 'z' WHERE id = 1")
        conn.execute("INSERT INTO item VALUES (3, 13, 'x')")
        conn.execute("TRUNCATE item")
        conn.execute("INSERT INTO item VALUES (1, 1, 'again'), (4, 13, '')")
    assert pipeline(database, target, tmp_path).run(once=True)
    assert ids(letters(tmp_path)) == [("I", ["1"]), ("I", ["4"])]
    assert [letter.table for letter in letters(tmp_path)] == ["public.other", "public.item"]
    target.mend("item", "other")
    ask(tmp_path)
    assert pipeline(database, target, tmp_path).run(once=True)
    assert letters(tmp_path) == []
    same(database, target, "item", "other")


def test_a_table_that_is_copied_anew(database: Database, target: Target, tmp_path: Path) -> None:
    """The copy has what was refused: its letters are closed, and the log is held no longer."""
    prepare(database, tmp_path)
    target.refuse()
    database.run("INSERT INTO item VALUES (1, 13, 'x'), (2, 2, 'y')")
    assert pipeline(database, target, tmp_path).run(once=True)
    assert len(letters(tmp_path)) == 1
    log = tmp_path / "state" / "log"
    assert {each.name for each in Consumers(log).all()} == {"target", "target-letters"}
    target.mend()
    ask_for_copy(database.url, "main", tmp_path / "state", ["target"], ("public", "item"))
    assert pipeline(database, target, tmp_path).run(once=True)
    assert [letter.status for letter in letters(tmp_path, closed=True)] == ["overtaken"]
    assert [each.name for each in Consumers(log).all()] == ["target"]
    same(database, target)


def test_the_log_is_kept_for_letters(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Segments with an open letter stay, however far the sink is; a full log says why, then they go."""
    target = Postgres(target_database)
    prepare(database, tmp_path)
    target.refuse()
    small = LogOptions(max_bytes=2_000_000)
    database.run("INSERT INTO item VALUES (0, 13, 'x')")
    assert pipeline(database, target, tmp_path, log=small).run(once=True)
    running = pipeline(database, target, tmp_path, log=small)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        for number in range(1, 4):
            database.run(
                f"INSERT INTO item SELECT g + {number * 10000}, 0, repeat('x', 100)"
                " FROM generate_series(1, 5000) g"
            )
        (problem,) = wait_until(
            lambda: [
                found
                for found in collect("main", database.url, tmp_path / "state" / "log").problems
                if found.code == "SLUICE-LOG-FULL"
            ]
        )
        assert "keeps for dead letters" in problem.what
        assert "dlq list" in problem.remedy
        target.mend()
        ask(tmp_path)
        wait_until(lambda: len(target.rows("item")) == 15001)
    finally:
        running.stop()
        thread.join()
    assert letters(tmp_path) == []
    same(database, target)


def test_missing_rights_and_tables(database: Database, target_database: Database, tmp_path: Path) -> None:
    """A table that the role may not write has letters of its own; the other tables go on."""
    prepare(database, tmp_path, "item", "other")
    target = Postgres(target_database)
    target.refuse("item", "other")
    role = f"r{database.name}"
    target_database.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT CREATE ON DATABASE {target_database.name} TO {role}",
        f"GRANT ALL ON SCHEMA public TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON other TO {role}",
        f"GRANT SET ON PARAMETER session_replication_role TO {role}",
    )
    database.run("INSERT INTO item VALUES (1, 1, 'x')", "INSERT INTO other VALUES (1, 1, 'x')")

    def run() -> None:
        sink = PostgresSink(target_database.url_as(role, "x"))
        source = PostgresSource(database.url)
        assert Pipeline(
            source, sink, state_dir=tmp_path / "state", mode="replication", on_error="dead_letter"
        ).run(once=True)

    run()
    (letter,) = letters(tmp_path)
    assert (letter.table, letter.code) == ("public.item", "SLUICE-ROW-REFUSED")
    same(database, target, "other")
    target_database.run(f"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON item TO {role}")
    ask(tmp_path)
    run()
    assert letters(tmp_path) == []
    same(database, target, "item", "other")
    target_database.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


class LosesReplies(PostgresSink):
    """Applies each batch, and then says that it could not."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.lost: set[str] = set()

    def apply(self, batch: Batch) -> None:
        """Lose the first reply."""
        super().apply(batch)
        if batch.end not in self.lost:
            self.lost.add(batch.end)
            self.close()
            raise TargetUnavailableError("the reply was lost")


def test_replies_that_are_lost(database: Database, target_database: Database, tmp_path: Path) -> None:
    """A batch, or a replay, whose reply was lost is there already: its letters stay, and none comes twice."""
    target = Postgres(target_database)
    prepare(database, tmp_path, "item", "bag")
    target.refuse("item", "bag")

    def run() -> None:
        sink = LosesReplies(target_database.url)
        source = PostgresSource(database.url, keyless="full")
        options = {"mode": "replication", "on_error": "dead_letter", "batch": EACH}
        assert Pipeline(source, sink, state_dir=tmp_path / "state", **options).run(once=True)
        assert sink.lost

    for table in ("item", "bag"):
        database.run(f"INSERT INTO {table} VALUES (1, 13, 'a'), (2, 2, 'b')", f"UPDATE {table} SET t = 'c'")
    run()
    assert [(each.table, each.op) for each in letters(tmp_path)] == [
        (f"public.{table}", op) for table in ("item", "bag") for op in "IU"
    ]
    target.mend("item", "bag")
    ask(tmp_path)
    run()
    assert {letter.status for letter in letters(tmp_path, closed=True)} == {"replayed"}
    database.run("INSERT INTO item VALUES (3, 3, 'd')")
    run()
    same(database, target, "item", "bag")


def test_random_changes(database: Database, target: Target, tmp_path: Path) -> None:
    """Histories of a few rows, many refused: what has no letter is right, and a replay mends the rest."""
    seed = int(os.environ.get("PGSLUICE_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    prepare(database, tmp_path, "item", "bag")
    target.refuse("item", "bag")
    put_aside = 0
    for way in (EACH, DRIVER, EACH):
        with database.connect() as conn:
            for _ in range(12):
                with conn.transaction():
                    for _ in range(rng.randrange(1, 4)):
                        conn.execute(_random_change(rng))
        assert pipeline(database, target, tmp_path, batch=way).run(once=True)
        found = letters(tmp_path)
        put_aside += len(found)
        for table in ("item", "bag"):
            touched = {cells for each in found if each.table == f"public.{table}" for cells in each.keys}
            names = {str(json.loads(cells)[0]) for cells in touched}
            wanted = [row for row in source_rows(database, table) if str(row[0]) not in names]
            assert [row for row in target.rows(table) if str(row[0]) not in names] == wanted
    target.mend("item", "bag")
    ask(tmp_path)
    assert pipeline(database, target, tmp_path).run(once=True)
    assert letters(tmp_path) == []
    print(f"{put_aside} letters")
    same(database, target, "item", "bag")


def _random_change(rng: random.Random) -> str:
    table, value = rng.choice(["item", "bag"]), rng.choice([1, 2, 13])
    row, other = rng.randrange(8), rng.randrange(8)
    return rng.choice(
        [
            f"INSERT INTO {table} SELECT {row}, {value}, 'x' WHERE NOT {_has(table, row)}",
            f"UPDATE {table} SET n = {value} WHERE id = {row}",
            f"UPDATE {table} SET t = t || 'y' WHERE id = {row}",
            f"UPDATE {table} SET id = {other} WHERE id = {row} AND NOT {_has(table, other)}",
            f"DELETE FROM {table} WHERE id = {row}",
            *([f"TRUNCATE {table}"] if rng.random() < 0.1 else []),
        ]
    )


def _has(table: str, row: int) -> str:
    return f"EXISTS (SELECT FROM {table} WHERE id = {row})"
