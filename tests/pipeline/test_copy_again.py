"""Tables that are copied while the sink has rows under their name already: none stays, none comes twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import MemorySink, Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import PublicationChangedError, TargetError
from pgsluice.pipeline import copy_plan
from pgsluice.sinks.memory import MemoryStore
from pgsluice.sinks.postgres import PostgresConfig
from pgsluice.source.snapshot import copy_out
from tests.pipeline.test_copy import Interrupted, InterruptedPostgres, cut_small, held
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.source.snapshot.ranges import CopyRange
    from tests.fix_pg import Database


def run_once(database: Database, sink: Any, tmp_path: Path, **options: Any) -> None:
    """One run that copies what is missing and then streams."""
    source = PostgresSource(database.url, init=True, **{"keyless": "full", **options})
    Pipeline(source, sink, state_dir=tmp_path / "state").run(once=True)


def test_a_table_that_the_stream_brought_first(database: Database, tmp_path: Path) -> None:
    """A table made while a run streams all tables comes by the stream; the next start does not double it."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    store = MemoryStore()

    class MakesOneMeanwhile(MemorySink):
        """Makes a table between the look at what is missing and the first changes."""

        def apply(self, batch: Any) -> None:
            super().apply(batch)
            if made == [1]:
                made.append(2)
                database.run(
                    "CREATE TABLE fresh (id int)",
                    "ALTER TABLE fresh REPLICA IDENTITY FULL",
                    "INSERT INTO fresh VALUES (1), (1), (2)",
                )
                pipeline.finish_at(where.current_lsn())

    made: list[int] = []
    run_once(database, MemorySink(store), tmp_path, all_tables=True)
    made.append(1)
    database.run("INSERT INTO t VALUES (1)")
    where = PostgresSource(database.url, init=True, all_tables=True, keyless="full")
    pipeline = Pipeline(where, MakesOneMeanwhile(store), state_dir=tmp_path / "state")
    pipeline.run(once=True)
    assert held(store, "fresh") == [("1",), ("1",), ("2",)]
    run_once(database, MemorySink(store), tmp_path, all_tables=True)
    assert held(store, "fresh") == source_rows(database, "fresh")


def test_changes_of_a_table_that_another_one_replaced(database: Database, tmp_path: Path) -> None:
    """What the stream still holds of a dropped table is not put among the rows of its successor."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    store = MemoryStore()
    run_once(database, MemorySink(store), tmp_path)
    database.run(
        "INSERT INTO t VALUES (2, 'of the old one')",
        "DROP TABLE t",
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t VALUES (5, 'new')",
    )
    run_once(database, MemorySink(store), tmp_path)
    assert held(store, "t") == source_rows(database, "t") == [("5", "new")]


@pytest.mark.spark
def test_a_table_that_is_replaced_in_the_middle_of_its_copy(
    database: Database, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a copy that was broken off go, also when another table has the name by then."""
    cut_small(monkeypatch)
    monkeypatch.setattr(copy_plan, "BATCH_BYTES", 64 << 10)
    monkeypatch.setattr(copy_plan, "RAW_BATCHES", 1)
    database.run(
        "CREATE TABLE t (id int, v text)",
        "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 3000) g",
    )
    store = MemoryStore()
    with pytest.raises(RuntimeError, match="killed"):
        run_once(database, Interrupted(store, 1), tmp_path)
    assert len(held(store, "t")) > 100
    database.run("DROP TABLE t", "CREATE TABLE t (id int, v text)", "INSERT INTO t VALUES (1, 'new')")
    run_once(database, MemorySink(store), tmp_path)
    assert held(store, "t") == [("1", "new")]


def test_a_broken_copy_of_a_table_that_others_refer_to(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """TRUNCATE is refused there: its rows are deleted instead, and copied again."""
    tables = (
        "CREATE TABLE p (id int PRIMARY KEY)",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)",
    )
    database.run(*tables, "INSERT INTO p VALUES (1)", "INSERT INTO c VALUES (1, 1)")
    target_database.run(*tables)
    given = PostgresConfig.model_validate({"url": target_database.url, "schema_copy": "leave"})
    with pytest.raises(RuntimeError, match="killed"):
        run_once(database, InterruptedPostgres(given, 0), tmp_path)  # type: ignore[arg-type]
    run_once(database, PostgresSink(given), tmp_path)
    for table in ("p", "c"):
        assert source_rows(target_database, table) == source_rows(database, table), table


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE s.t DROP COLUMN v", "ALTER TABLE s.t RENAME v TO w", "ALTER SCHEMA s RENAME TO s2"],
)
def test_a_table_that_is_changed_while_it_is_copied(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A name that is gone by then is looked up again at a new point."""
    database.run(
        "CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY, v text)", "INSERT INTO s.t VALUES (1, 'a')"
    )
    real, done = copy_out._lock, []

    def change_first(conn: Any, part: CopyRange) -> None:
        if not done:
            done.append(part)
            database.run(change)
        real(conn, part)

    monkeypatch.setattr(copy_out, "_lock", change_first)
    store = MemoryStore()
    run_once(database, MemorySink(store), tmp_path, all_tables=True)
    found = [row for table in store.tables.values() for row in table.rows]
    assert found == ([("1",)] if "DROP" in change else [("1", "a")])


def test_a_table_that_left_a_publication_of_the_users_and_is_back(database: Database, tmp_path: Path) -> None:
    """Nobody saw it go: the run stops and says so, and after the next init it is copied again."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE PUBLICATION mine FOR TABLE t",
        "INSERT INTO t VALUES (1, 'a')",
    )
    store = MemoryStore()

    def run() -> None:
        source = PostgresSource(database.url, publication="mine", init=True)
        Pipeline(source, MemorySink(store), state_dir=tmp_path / "state").run(once=True)

    run()
    database.run(
        "ALTER PUBLICATION mine DROP TABLE t",
        "INSERT INTO t VALUES (2, 'b')",
        "DELETE FROM t WHERE id = 1",
        "ALTER PUBLICATION mine ADD TABLE t",
        "INSERT INTO t VALUES (3, 'c')",
    )
    with pytest.raises(PublicationChangedError, match="taken off and put back"):
        run()
    PostgresSource(database.url, publication="mine").init("main")
    run()
    assert sorted(store.tables["public.t"].rows) == [("2", "b"), ("3", "c")]


def test_a_table_that_the_filter_left_out_for_a_while(database: Database, tmp_path: Path) -> None:
    """Its changes of that time are nowhere: when it comes back it is copied again."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO t SELECT g, 'a' FROM generate_series(1, 10) g",
    )
    store = MemoryStore()

    def run(wanted: Callable[[str, str], bool] | None = None) -> None:
        source = PostgresSource(database.url, init=True)
        Pipeline(source, MemorySink(store), state_dir=tmp_path / "state", wanted=wanted).run(once=True)

    run()
    for changes in (
        ["INSERT INTO t VALUES (11, 'b')", "UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2"],
        ["INSERT INTO other VALUES (1)"],  # a second start without it forgets nothing
    ):
        database.run(*changes)
        run(lambda _schema, name: name != "t")
    assert len(store.tables["public.t"].rows) == 10
    run()
    assert sorted(store.tables["public.t"].rows) == sorted(
        (str(id_), v) for id_, v in database.rows("SELECT * FROM t")
    )
    run()  # and that is that: nothing is left to be copied
    assert sorted(store.tables["public.other"].rows) == [("1",)]


def test_a_copy_that_would_remove_rows_of_others(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """Where others may write too, a table that has to be copied from its beginning is not emptied."""
    for each in (database, target_database):
        each.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    database.run("INSERT INTO t VALUES (1, 'a')")
    target_database.run("INSERT INTO t VALUES (-1, 'of others')")
    options = {"url": target_database.url, "on_conflict": "update", "schema_changes": "ignore"}

    def run(wanted: Callable[[str, str], bool] | None = None) -> None:
        sink = PostgresSink(PostgresConfig.model_validate(options))
        source = PostgresSource(database.url, init=True)
        Pipeline(source, sink, state_dir=tmp_path / "state", wanted=wanted).run(once=True)

    run()
    run(lambda _schema, name: name != "t")
    with pytest.raises(TargetError, match="rows of others may be among those"):
        run()
    assert target_database.rows("SELECT id FROM t ORDER BY id") == [(-1,), (1,)]
    target_database.run("TRUNCATE t")
    run()
    assert target_database.rows("SELECT id FROM t ORDER BY id") == [(1,)]


def test_a_table_that_the_filter_left_out_from_the_beginning(
    database: Database, target_database: Database, tmp_path: Path
) -> None:
    """That the log has changes of it does not make rows of others in the target this pipeline's."""
    for each in (database, target_database):
        each.run("CREATE TABLE t (id int PRIMARY KEY)")
    database.run("CREATE TABLE other (id int PRIMARY KEY)")
    target_database.run("INSERT INTO t VALUES (-1)")

    def run(wanted: Callable[[str, str], bool] | None = None) -> None:
        sink, source = PostgresSink(target_database.url), PostgresSource(database.url, init=True)
        Pipeline(source, sink, state_dir=tmp_path / "state", wanted=wanted).run(once=True)

    run(lambda _schema, name: name != "t")
    database.run("INSERT INTO t VALUES (1)", "INSERT INTO other VALUES (1)")
    run(lambda _schema, name: name != "t")
    with pytest.raises(TargetError, match="rows that are not from this pipeline"):
        run()
    assert target_database.rows("SELECT id FROM t") == [(-1,)]


@pytest.mark.parametrize("swapped", ["columns", "tables"])
def test_names_that_are_swapped_while_tables_are_copied(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """Rows are read as they were at the point, by names of now: nothing is put in another's place."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b text)",
        "CREATE TABLE u (id int PRIMARY KEY, a text, b text)",
        "INSERT INTO t SELECT g, 'a', 'b' FROM generate_series(1, 50) g",
        "INSERT INTO u SELECT g, 'of u', 'of u' FROM generate_series(1, 50) g",
    )
    one, other, rename = "t", "u", "ALTER TABLE %s RENAME TO %s"
    if swapped == "columns":
        one, other, rename = "a", "b", "ALTER TABLE t RENAME COLUMN %s TO %s"
    left = [rename % (one, "x"), rename % (other, one), rename % ("x", other)]
    lock = copy_out._lock

    def meddled(conn: Any, part: Any) -> None:
        while left:
            database.run(left.pop(0))
        lock(conn, part)

    monkeypatch.setattr(copy_out, "_lock", meddled)
    store = MemoryStore()
    run_once(database, MemorySink(store), tmp_path)
    for table in ("t", "u"):
        wanted = [tuple(map(str, row)) for row in database.rows(f"SELECT id, a, b FROM {table} ORDER BY id")]
        if (swapped, table) == ("columns", "t"):
            wanted = [(number, b, a) for number, a, b in wanted]  # as the stream has them: by their numbers
        assert sorted(store.tables[f"public.{table}"].rows, key=lambda row: int(row[0])) == wanted
