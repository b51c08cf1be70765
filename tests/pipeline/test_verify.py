"""What targets hold, compared with the source: equal where it is, and every kind of difference is found."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pytest

from pgsluice.errors import TargetUnavailableError
from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config
from pgsluice.pipeline.verify.verify import VerifyOptions, verify
from pgsluice.source.process import listening_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pgsluice.pipeline.config import Config
    from pgsluice.pipeline.verify.report import TableReport, TargetReport
    from tests.fix_pg import Database

ROWS = 3000

TABLES = (
    "CREATE TYPE mood AS ENUM ('sad', 'very happy')",
    "CREATE TABLE item (id int PRIMARY KEY, name text, price numeric, mood mood DEFAULT 'sad')",
    f"INSERT INTO item SELECT g, 'item ' || g, 1.0 FROM generate_series(1, {ROWS}) g",
    "CREATE TABLE note (t text, n int)",
    "ALTER TABLE note REPLICA IDENTITY FULL",
    "INSERT INTO note VALUES ('a', 1), ('a', 1), (NULL, 2), ('', 2), ('b', 3)",
    'CREATE SCHEMA "Größe 100%"',
    (
        'CREATE TABLE "Größe 100%"."Tabelle ""x""" ("Schlüssel 1" text, "zwei %s" text, "Wert, €" text, '
        'PRIMARY KEY ("Schlüssel 1", "zwei %s"))'
    ),
    (
        'INSERT INTO "Größe 100%"."Tabelle ""x""" VALUES '
        "('ä', 'z%s', 'x'), ('a', E'{\"\\\\', NULL), ('Z', ' ', '')"
    ),
    "CREATE TABLE part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20)",
    "INSERT INTO part VALUES (1, 'a'), (11, 'b')",
    (
        "CREATE TABLE kinds (id float8 PRIMARY KEY, b bool, y bytea, d date, ts timestamptz, f float4, "
        "j jsonb, n numeric(10,3), i interval, a int[], c char(5), net inet, big numeric)"
    ),
    (
        "INSERT INTO kinds VALUES (1e23, true, '\\x00ff', '0044-03-15 BC', '2024-02-29 12:00:00.5+01', 1e-7, "
        "'{\"b\": 1.10, \"a\": null}', 0.5, '1 day -00:00:01', '{1,NULL}', 'ab', '10.0.0.1', 1.10), "
        "(-0.0, false, '', 'infinity', '-infinity', 'NaN', '\"\"', -0.001, '0', '{}', '', '::1', 'NaN'), "
        "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
    ),
)


def configured(place: Path, source: Database, target: str, more: str = "") -> Config:
    """A pipeline with one target."""
    file = place / "pipeline.yaml"
    file.write_text(
        f"""
state_dir: {place / "state"}
source: {{postgres: {{url: "{source.url}", replication: {{keyless: full}}}}}}
target: {target}
{more}
"""
    )
    return load_config(file, {}, {})


def filled(config: Config) -> Config:
    """After everything is copied and applied."""
    build_pipeline(config, init=True).run(once=True)
    return config


def to_postgres(target: Database) -> str:
    """The section of a target."""
    return f'{{postgres: {{url: "{target.url}"}}}}'


def only(reports: list[TargetReport]) -> TargetReport:
    """The one that there is."""
    (report,) = reports
    return report


def differing(report: TargetReport) -> dict[str, TableReport]:
    """The tables that are not equal, by name."""
    return {table.table: table for table in report.tables if table.differs}


def found(table: TableReport) -> dict[str, int]:
    """How many differences of each kind."""
    return {kind: n for kind in ("missing", "extra", "different") if (n := getattr(table, kind))}


class Place:
    """A target that tests change behind the pipeline's back."""

    def __init__(self, kind: str, request: pytest.FixtureRequest, place: Path) -> None:
        self._file = place / "x.duckdb"
        self._database: Database | None = None
        self.section = f"{{duckdb: {{path: {self._file}}}}}"
        if kind == "postgres":
            self._database = request.getfixturevalue("target_database")
            self.section = to_postgres(self._database)

    def run(self, *statements: str) -> None:
        """Run statements."""
        if self._database is not None:
            self._database.run(*statements)
            return
        with duckdb.connect(str(self._file)) as conn:
            conn.execute("SET schema = 'public'")
            for statement in statements:
                conn.execute(statement)


@pytest.fixture
def shop(database: Database) -> Database:
    """Tables with and without keys, odd names, partitions, and types that are printed in many ways."""
    database.run(*TABLES)
    return database


@pytest.mark.both_versions
def test_equal_postgres(shop: Database, target_database: Database, tmp_path: Path) -> None:
    """Every table, with all its rows, also where the two servers are of other versions."""
    report = only(verify(filled(configured(tmp_path, shop, to_postgres(target_database)))))
    assert not differing(report)
    rows = {table.table: (table.source_rows, table.target_rows) for table in report.tables}
    assert rows == {
        "public.item": (ROWS, ROWS),
        "public.note": (5, 5),
        "public.part_1": (1, 1),
        "public.part_2": (1, 1),
        "public.kinds": (3, 3),
        'Größe 100%.Tabelle "x"': (3, 3),
    }
    assert (report.running, report.notes, report.left_out) == (False, [], {})


def test_equal_duckdb(shop: Database, tmp_path: Path) -> None:
    """A file has values in types of its own; they are compared as what the sink would write."""
    config = filled(configured(tmp_path, shop, f"{{duckdb: {{path: {tmp_path / 'x.duckdb'}}}}}"))
    report = only(verify(config))
    assert not differing(report)
    assert sum(table.target_rows for table in report.tables) == ROWS + 5 + 2 + 3 + 3


PLANTED = {
    "missing": (
        "DELETE FROM item WHERE id = 7",
        "INSERT INTO item VALUES (7, 'item 7', 1.0, 'sad')",
        {"item": {"missing": 1}},
        ["7"],
    ),
    "extra": (
        "INSERT INTO item VALUES (-1, 'x', 1.0, 'sad')",
        "DELETE FROM item WHERE id = -1",
        {"item": {"extra": 1}},
        ["-1"],
    ),
    "changed": (
        "UPDATE item SET name = 'x' WHERE id = 9",
        "UPDATE item SET name = 'item 9' WHERE id = 9",
        {"item": {"different": 1}},
        ["9"],
    ),
    "swapped": (
        "UPDATE item SET name = 'item ' || 3 - id WHERE id IN (1, 2)",
        "UPDATE item SET name = 'item ' || id WHERE id IN (1, 2)",
        {"item": {"different": 2}},
        ["1", "2"],
    ),
    "null for a text": (
        "UPDATE item SET name = NULL WHERE id = 3",
        "UPDATE item SET name = 'item 3' WHERE id = 3",
        {"item": {"different": 1}},
        ["3"],
    ),
    "another key": (
        "UPDATE item SET id = -5 WHERE id = 5",
        "UPDATE item SET id = 5 WHERE id = -5",
        {"item": {"missing": 1, "extra": 1}},
        ["-5", "5"],
    ),
    "more digits": (
        "UPDATE item SET price = '1.00' WHERE id = 4",
        "UPDATE item SET price = '1.0' WHERE id = 4",
        {"item": {"different": 1}},
        ["4"],
    ),
    "doubled": (
        "INSERT INTO note VALUES ('b', 3)",
        "DELETE FROM note WHERE n = 3; INSERT INTO note VALUES ('b', 3)",
        {"note": {"extra": 1}},
        None,
    ),
    "one copy less": (
        "DELETE FROM note WHERE t IS NULL",
        "INSERT INTO note VALUES (NULL, 2)",
        {"note": {"missing": 1}},
        None,
    ),
    "empty for null": (
        "UPDATE note SET t = '' WHERE t IS NULL",
        "DELETE FROM note WHERE n = 2; INSERT INTO note VALUES (NULL, 2), ('', 2)",
        {"note": {"missing": 1, "extra": 1}},
        None,
    ),
}
"""What is done to a target, how it is undone, and what is found: differences by table, and keys."""


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
def test_planted(kind: str, database: Database, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Each kind of difference is found, where it is and nowhere else; undone, all is equal again."""
    database.run(*TABLES[:6])
    target = Place(kind, request, tmp_path)
    config = filled(configured(tmp_path, database, target.section))
    for planted, (statement, undo, expected, keys) in PLANTED.items():
        target.run(statement)
        tables = differing(only(verify(config)))
        assert {name: found(each) for name, each in tables.items()} == {
            f"public.{name}": kinds for name, kinds in expected.items()
        }, planted
        rows = [row for table in tables.values() for row in table.rows]
        if keys is None:
            assert all(list(row.key) == ["(digest of the row)"] for row in rows), planted
        else:
            assert [row.key["id"] for row in rows] == keys, planted
        target.run(*undo.split("; "))
        assert not differing(only(verify(config))), planted


def test_a_table_or_column_that_is_not_there(
    shop: Database, target_database: Database, tmp_path: Path
) -> None:
    """Said of the table as a whole; of the other columns rows are compared."""
    config = filled(configured(tmp_path, shop, to_postgres(target_database)))
    target_database.run(
        "DROP TABLE note", "ALTER TABLE item DROP COLUMN name", "UPDATE item SET price = 2 WHERE id = 1"
    )
    tables = differing(only(verify(config)))
    assert tables["public.note"].problems == ["the target has no such table"]
    assert tables["public.item"].problems == ["the target lacks the columns name"]
    assert found(tables["public.item"]) == {"different": 1}


def test_chosen_tables_and_limit(shop: Database, target_database: Database, tmp_path: Path) -> None:
    """Only what is asked for is read, and only some rows are told of; all are counted."""
    config = filled(configured(tmp_path, shop, to_postgres(target_database)))
    target_database.run("DELETE FROM item WHERE id <= 50", "DELETE FROM note")
    report = only(verify(config, VerifyOptions(tables=("item", "nowhere"), shown=3)))
    assert [(table.table, table.missing, len(table.rows)) for table in report.tables] == [
        ("public.item", 50, 3)
    ]
    assert "public.nowhere matches no table" in report.notes[0]


def test_behind(shop: Database, target_database: Database, tmp_path: Path) -> None:
    """Without a run what has not come yet differs, and it is said how far the target is behind."""
    config = filled(configured(tmp_path, shop, to_postgres(target_database)))
    shop.run(f"INSERT INTO item SELECT g FROM generate_series({ROWS + 1}, {ROWS + 100}) g")
    report = only(verify(config))
    assert {name: found(each) for name, each in differing(report).items()} == {
        "public.item": {"missing": 100}
    }
    assert report.behind_bytes is not None
    assert report.behind_bytes > 1000
    filled(config)
    assert not differing(only(verify(config)))


def test_target_down(shop: Database, tmp_path: Path) -> None:
    """An error of the target, with its exit code."""
    config = configured(tmp_path, shop, '{postgres: {url: "postgresql://127.0.0.1:1/x"}}')
    with pytest.raises(TargetUnavailableError) as raised:
        verify(config)
    assert raised.value.exit_code == 4


RULES = """
modifiers:
  filter:
    tables:
      item: {where: "id % 3 <> 0"}
  transformations:
    salt: a secret of the test, which is long
    table_transformers:
      - schema: public
        table: item
        column_transformers:
          name: {name: masking, parameters: {type: default}}
      - schema: public
        table: person
        column_transformers:
          id: {name: hash}
          nick: {name: sql, parameters: {expression: "concat(left(nick, 0), uuid())"}}
      - schema: public
        table: badge
        column_transformers:
          id: {name: string, allow_uniqueness_loss: true}
"""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
def test_filters_and_rules(
    kind: str, database: Database, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Rows are compared as they leave: masked, filtered, without random columns; no plain value is shown."""
    database.run(
        *TABLES[:3],
        "CREATE TABLE person (id text PRIMARY KEY, nick text, born date)",
        "CREATE TABLE badge (id text PRIMARY KEY)",
        "INSERT INTO badge SELECT md5(g::text) FROM generate_series(1, 30) g",
        "INSERT INTO person SELECT 'secret ' || g, 'nick ' || g, '2000-01-01' FROM generate_series(1, 40) g",
    )
    target = Place(kind, request, tmp_path)
    config = filled(configured(tmp_path, database, target.section, RULES))
    report = only(verify(config))
    assert not differing(report)
    assert {table.table: (table.source_rows, table.notes) for table in report.tables} == {
        "public.item": (ROWS - ROWS // 3, []),
        "public.person": (40, ["not compared: rules give random values to nick"]),
        "public.badge": (30, ["only counted: rules give its key random values (id)"]),
    }
    target.run(
        "UPDATE item SET name = 'item 4' WHERE id = 4",
        "INSERT INTO item VALUES (3, 'x', 1.0, 'sad')",
        "DELETE FROM badge WHERE id IN (SELECT min(id) FROM badge)",
        "UPDATE person SET nick = 'other', born = '2001-01-01' WHERE id IN (SELECT min(id) FROM person)",
    )
    tables = differing(only(verify(config)))
    assert {name: found(each) for name, each in tables.items()} == {
        "public.item": {"different": 1, "extra": 1},
        "public.person": {"different": 1},
        "public.badge": {"missing": 1},
    }
    assert "secret" not in str(tables)


def wait_for(happened: Callable[[], bool]) -> None:
    """Until something is so."""
    until = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextmanager
def running(config: Config) -> Iterator[None]:
    """A pipeline at work."""
    pipeline = build_pipeline(config)
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    try:
        wait_for(lambda: any(loop.is_alive() for loop in pipeline.loops.values()))
        wait_for(lambda: listening_process(config.log_dir) is not None)
        yield
    finally:
        pipeline.stop()
        thread.join(60)
        assert not thread.is_alive()


@contextmanager
def traffic(source: Database) -> Iterator[list[int]]:
    """Changes of all kinds until the block ends; gives how many."""
    done, ended = [0], threading.Event()

    def write() -> None:
        with source.connect() as conn:
            while not ended.is_set():
                n = done[0]
                conn.execute("UPDATE item SET price = price + 1 WHERE id %% 97 = %s", (n % 90,))
                conn.execute("DELETE FROM item WHERE id = %s", (ROWS + n - 5,))
                conn.execute("INSERT INTO item VALUES (%s, 'new')", (ROWS + n + 1,))
                conn.execute("INSERT INTO note VALUES ('new', %s)", (n % 7,))
                conn.execute("UPDATE note SET n = n + 1 WHERE t = 'new' AND n = 3")
                done[0] += 1
                time.sleep(0.005)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
def test_live(kind: str, database: Database, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """While rows change and a pipeline runs nothing is taken for a difference; a planted one is found."""
    database.run(*TABLES[:6])
    target = Place(kind, request, tmp_path)
    config = filled(configured(tmp_path, database, target.section))
    with running(config), traffic(database) as done:
        for _ in range(2):
            report = only(verify(config))
            assert report.running
            assert {name: found(each) for name, each in differing(report).items()} == {}
            assert all(table.source_rows >= 4 for table in report.tables)
        target.run("UPDATE item SET name = 'planted' WHERE id = 96")  # which no change touches
        report = only(verify(config))
        assert {name: found(each) for name, each in differing(report).items()} == {
            "public.item": {"different": 1}
        }
        (row,) = [row for row in differing(report)["public.item"].rows if row.kind != "unsettled"]
        assert row.key == {"id": "96"}
    assert done[0] > 20
    print(f"{done[0]} rounds of changes while three comparisons were made")
