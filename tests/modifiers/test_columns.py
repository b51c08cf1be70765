"""Columns that stay behind: neither a value nor a word of them is in any target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from pgsluice.changelog.reader import LogReader
from pgsluice.errors import ConfigError
from pgsluice.pipeline.build import build_pipeline
from pgsluice.pipeline.config import load_config
from pgsluice.pipeline.follow import Entries, follow
from pgsluice.pipeline.modify import chain_of_others
from tests.modifiers.ruled import forced

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.pipeline.config import Config
    from tests.fix_pg import Database

CANARY = "canary"
COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '{}'"
    " ORDER BY ordinal_position"
)
PEOPLE = (
    """CREATE TABLE people (id int PRIMARY KEY, name text, secret text NOT NULL DEFAULT 'canary default',
       no serial, big text, born date)""",
    "CREATE UNIQUE INDEX people_secret ON people (secret, no)",
    "CREATE INDEX people_name ON people (name) WHERE secret <> ''",
    "CREATE INDEX people_born ON people (born)",
    "ALTER TABLE people ADD CONSTRAINT long CHECK (length(secret) > 1)",
    "ALTER TABLE people ADD CONSTRAINT old CHECK (born::text <> '')",
    "CREATE VIEW secrets AS SELECT id, secret FROM people",
    "CREATE VIEW more_secrets AS SELECT * FROM secrets",
    "CREATE VIEW names AS SELECT id, name FROM people",
    "CREATE STATISTICS of_secret ON id, secret FROM people",
    "COMMENT ON COLUMN people.secret IS 'canary comment'",
    "COMMENT ON COLUMN people.name IS 'what they are called'",
    "COMMENT ON INDEX people_name IS 'canary index'",
    "GRANT SELECT (secret) ON people TO PUBLIC",
    """INSERT INTO people SELECT n, 'n' || n, 'canary' || n, n, repeat('x', 9000), '2000-01-01'
       FROM generate_series(1, 50) n""",
)
WITHOUT = {"public.people": {"columns": {"exclude": ["secret", "no"]}}}
KEPT = "id, name, big, born"


class Run:
    """A pipeline into a PostgreSQL database, a DuckDB file and lines of files."""

    def __init__(self, source: Database, target: Database, place: Path) -> None:
        self.source, self.target, self.place = source, target, place

    def once(self, filters: dict[str, Any], targets: str = "all", way: str | None = None) -> None:
        """Catch up."""
        pipeline = build_pipeline(self._config(filters, targets), init=True)
        assert (forced(pipeline, way) if way else pipeline).run(once=True)

    def shown(self, filters: dict[str, Any]) -> list[str]:
        """What ``tail`` shows of the log, where no run is."""
        config = self._config(filters, "duckdb")
        entries = Entries(as_json=False, chain=chain_of_others(config), spark=SparkSession.getActiveSession)
        slices = iter([True, False])
        first = LogReader(config.log_dir).first_lsn
        return list(follow(config.log_dir, first, entries, going=lambda: next(slices)))

    def _config(self, filters: dict[str, Any], targets: str) -> Config:
        every = {
            "postgres": {"postgres": {"url": self.target.url, "privileges": True}},
            "duckdb": {"duckdb": {"path": str(self.place / "target.duckdb")}},
            "files": {"files": {"path": str(self.place / "feed"), "format": "jsonl"}},
        }
        chosen = every if targets == "all" else {targets: every[targets]}
        return load_config(
            None,
            {},
            {
                "source.postgres.url": self.source.url,
                "targets": [{"name": name, **target} for name, target in chosen.items()],
                "state_dir": str(self.place / "state"),
                "modifiers": {"filter": {"tables": filters}},
            },
        )

    def lines(self) -> list[dict[str, Any]]:
        """What the files have."""
        found = sorted((self.place / "feed").rglob("*.jsonl"))
        return [json.loads(line) for path in found for line in path.read_text().splitlines()]

    def in_duckdb(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the DuckDB file."""
        with duckdb.connect(str(self.place / "target.duckdb"), read_only=True) as connection:
            return connection.execute(query).fetchall()

    def require_same(self, columns: str = KEPT, table: str = "people") -> None:
        """Both targets have the source's rows, without what stays behind."""
        query = f"SELECT {columns} FROM {table} ORDER BY 1"
        wanted = self.source.rows(query)
        assert self.target.rows(f"SELECT * FROM {table} ORDER BY 1") == wanted
        assert self.in_duckdb(f"SELECT * FROM public.{table} ORDER BY 1") == wanted

    def require_no_canary(self) -> None:
        """Not a word of it in any target."""
        for (table,) in self.target.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            rows = self.target.rows(f"SELECT t::text FROM {table} t")
            assert rows
            assert not [row for (row,) in rows if CANARY in row]
        described = self.target.rows(
            "SELECT description FROM pg_description"
            " UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef"
            " UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint"
            " UNION ALL SELECT definition FROM pg_views UNION ALL SELECT indexdef FROM pg_indexes"
        )
        assert not [text for (text,) in described if CANARY in (text or "")]
        for path in (self.place / "feed").rglob("*"):
            assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path
        assert CANARY.encode() not in (self.place / "target.duckdb").read_bytes()


@pytest.fixture
def run(database: Database, target_database: Database, tmp_path: Path) -> Run:
    """Before its first run."""
    return Run(database, target_database, tmp_path)


CHANGES = (
    "INSERT INTO people (id, name, secret) VALUES (100, 'new', 'canary new')",
    "UPDATE people SET secret = 'canary changed' WHERE id = 2",
    "UPDATE people SET name = 'other' WHERE id = 3",
    "UPDATE people SET big = repeat('y', 9000), secret = 'canary again' WHERE id = 4",
    "UPDATE people SET id = 1000 WHERE id = 5",
    "DELETE FROM people WHERE id = 6",
)


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "tasks"])
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_no_value_leaves(run: Run, spark: SparkSession, way: str, identity: str) -> None:
    """Of rows that are copied, and of those that change; also where old rows are in the stream."""
    run.source.run(*PEOPLE, f"ALTER TABLE people REPLICA IDENTITY {identity}")
    run.once(WITHOUT)
    run.require_same()
    run.source.run(*CHANGES)
    run.once(WITHOUT, way=way)
    run.require_same()
    run.require_no_canary()
    assert not any("secret" in json.dumps(line) for line in run.lines())
    shown = run.shown(WITHOUT)
    assert any("other" in line for line in shown)
    assert not [line for line in shown if CANARY in line or "secret" in line]
    with pytest.raises(ConfigError, match=r"leaves out columns of public\.people, and this configuration"):
        run.shown({})


@pytest.mark.spark
@pytest.mark.both_versions
def test_what_is_made_with_them_stays_behind_too(run: Run, spark: SparkSession) -> None:
    """Indexes, rules, views over views, statistics, sequences; all else is there."""
    run.source.run(*PEOPLE)
    run.once(WITHOUT, "postgres")
    target = run.target
    assert target.rows(COLUMNS.format("people")) == [("id",), ("name",), ("big",), ("born",)]
    assert target.rows("SELECT indexname FROM pg_indexes WHERE tablename = 'people' ORDER BY 1") == [
        ("people_born",),
        ("people_pkey",),
    ]
    names = (
        "SELECT conname FROM pg_constraint WHERE conrelid = 'people'::regclass AND contype <> 'n' ORDER BY 1"
    )
    assert target.rows(names) == [("old",), ("people_pkey",)]
    assert target.rows("SELECT viewname FROM pg_views WHERE schemaname = 'public'") == [("names",)]
    assert target.rows("SELECT stxname FROM pg_statistic_ext") == []
    assert target.rows("SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'") == []
    assert target.rows("SELECT col_description('people'::regclass, 2)") == [("what they are called",)]


@pytest.mark.spark
@pytest.mark.both_versions
def test_changes_of_the_schema(run: Run, spark: SparkSession) -> None:
    """A column that is renamed stays behind; what is new and made with it, too."""
    run.source.run(*PEOPLE)
    run.once(WITHOUT)
    run.source.run(
        "ALTER TABLE people RENAME secret TO hidden",
        "INSERT INTO people (id, name, hidden) VALUES (200, 'a', 'canary renamed')",
        "CREATE INDEX i ON people (hidden)",
        "CREATE INDEX j ON people (name)",
        "ALTER TABLE people ADD CONSTRAINT c CHECK (hidden <> 'canary check')",
        "CREATE VIEW v AS SELECT hidden FROM people",
        "CREATE VIEW w AS SELECT name FROM people",
        "COMMENT ON COLUMN people.hidden IS 'canary comment'",
        "ALTER TABLE people ALTER hidden SET DEFAULT 'canary other default'",
        "ALTER TABLE people ADD secret text DEFAULT 'canary once more'",
        "ALTER TABLE people ADD fine text DEFAULT 'fine'",
        "INSERT INTO people (id, name) VALUES (201, 'b')",
        "ALTER TABLE people RENAME name TO called",
        "ALTER TABLE people DROP COLUMN hidden CASCADE",
        "INSERT INTO people (id, called) VALUES (202, 'c')",
        "ALTER TABLE people RENAME TO persons",
        "INSERT INTO persons (id, called, secret) VALUES (203, 'd', 'canary at last')",
    )
    moved = {"public.persons": WITHOUT["public.people"]}
    run.once(moved)
    run.require_same("id, called, big, born, fine", "persons")
    run.require_no_canary()
    indexes = run.target.rows("SELECT indexname FROM pg_indexes WHERE tablename = 'persons' ORDER BY 1")
    assert indexes == [("j",), ("people_born",), ("people_pkey",)]
    assert run.target.rows("SELECT viewname FROM pg_views WHERE schemaname = 'public' ORDER BY 1") == [
        ("names",),
        ("w",),
    ]
    run.source.run("UPDATE persons SET secret = 'canary later', fine = 'f' WHERE id < 10")
    run.once(moved)
    run.require_same("id, called, big, born, fine", "persons")
    run.require_no_canary()


@pytest.mark.spark
def test_only_some_columns(run: Run, spark: SparkSession) -> None:
    """Under include a new column stays behind, also one that takes the name of one that went on."""
    run.source.run(*PEOPLE)
    only = {"public.people": {"columns": {"include": ["id", "name"]}}}
    run.once(only)
    run.require_same("id, name")
    run.source.run(
        "ALTER TABLE people ADD more text DEFAULT 'canary more'",
        "INSERT INTO people (id, name, more) VALUES (300, 'a', 'canary')",
        "ALTER TABLE people RENAME name TO called",
        "ALTER TABLE people RENAME secret TO name",
        "INSERT INTO people (id, called, name) VALUES (301, 'b', 'canary under another name')",
    )
    run.once(only)
    run.require_same("id, called")
    run.require_no_canary()


@pytest.mark.spark
def test_columns_that_swap_their_names(run: Run, spark: SparkSession) -> None:
    """Rows are read when the catalog has the names already that came later."""
    run.source.run("CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
    run.source.run("INSERT INTO t VALUES (1, 'a', 'canary')")
    filters = {"public.t": {"columns": {"exclude": ["b"]}}}
    run.once(filters)
    run.source.run(
        "ALTER TABLE t ADD c int",
        "INSERT INTO t VALUES (2, 'aa', 'canary')",
        "ALTER TABLE t RENAME a TO x",
        "ALTER TABLE t RENAME b TO a",
        "ALTER TABLE t RENAME x TO b",
        "INSERT INTO t (id, b, a) VALUES (3, 'aaa', 'canary')",
    )
    run.once(filters)
    wanted = [(1, "a", None), (2, "aa", None), (3, "aaa", None)]
    assert run.source.rows("SELECT id, b, c FROM t ORDER BY 1") == wanted
    assert run.target.rows("SELECT id, b, c FROM t ORDER BY 1") == wanted
    assert run.in_duckdb("SELECT id, b, c FROM public.t ORDER BY 1") == wanted
    run.require_no_canary()


@pytest.mark.spark
def test_a_table_that_is_copied_anew(run: Run, spark: SparkSession) -> None:
    """Because the source has rewritten its rows."""
    run.source.run(*PEOPLE)
    run.once(WITHOUT)
    run.source.run(
        "ALTER TABLE people ALTER born TYPE text USING 'born ' || id",
        "INSERT INTO people (id, name, born) VALUES (400, 'a', 'b')",
    )
    run.once(WITHOUT)
    run.once(WITHOUT)
    run.require_same()
    run.require_no_canary()


@pytest.mark.spark
def test_a_view_that_shows_such_a_column_from_now_on(run: Run, spark: SparkSession) -> None:
    """It goes from the target, and comes back when it no longer does."""
    run.source.run(*PEOPLE)
    run.once(WITHOUT, "postgres")
    run.source.run("CREATE OR REPLACE VIEW names AS SELECT id, name, secret FROM people")
    run.once(WITHOUT, "postgres")
    views = "SELECT viewname FROM pg_views WHERE schemaname = 'public'"
    assert run.target.rows(views) == []
    run.source.run("DROP VIEW names", "CREATE VIEW names AS SELECT id FROM people")
    run.once(WITHOUT, "postgres")
    assert run.target.rows(views) == [("names",)]


@pytest.mark.spark
def test_a_table_without_a_key(run: Run, spark: SparkSession) -> None:
    """Rows that are alike in what goes on are as many as in the source."""
    run.source.run(
        "CREATE TABLE bag (a int, secret text, b text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO bag SELECT n % 3, 'canary' || n, 'b' FROM generate_series(1, 30) n",
    )
    filters = {"public.bag": {"columns": {"exclude": ["secret"]}}}
    run.once(filters)
    run.source.run(
        "DELETE FROM bag WHERE secret IN ('canary3', 'canary4')",
        "UPDATE bag SET b = 'c' WHERE secret = 'canary6'",
        "UPDATE bag SET secret = 'canary none' WHERE a = 1",
        "INSERT INTO bag VALUES (0, 'canary', 'b'), (0, 'canary', 'b')",
    )
    run.once(filters)
    query = "SELECT a, b FROM bag ORDER BY 1, 2"
    wanted = run.source.rows(query)
    assert run.target.rows(query) == wanted
    assert run.in_duckdb("SELECT * FROM public.bag ORDER BY 1, 2") == wanted
    run.require_no_canary()


@pytest.mark.spark
def test_a_condition_may_look_at_what_stays_behind(run: Run, spark: SparkSession) -> None:
    """Rows are chosen before columns are taken out of them."""
    run.source.run(*PEOPLE, "ALTER TABLE people REPLICA IDENTITY FULL")
    filters = {"public.people": {"where": "secret like '%1'", "columns": {"exclude": ["secret", "no"]}}}
    run.once(filters, "postgres")
    run.source.run("UPDATE people SET secret = 'canary 1' WHERE id = 2")
    run.once(filters, "postgres")
    assert run.target.rows("SELECT id FROM people ORDER BY 1") == [(1,), (2,), (11,), (21,), (31,), (41,)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"exclude": ["id"]}, r"leaves out id of public\.people, by which UPDATE and DELETE find their row"),
        ({"include": ["name"]}, "leaves out id of"),
        ({"exclude": ["secrte"]}, r"public\.people has no column secrte, which the filter names"),
        ({"exclude": ["secret"], "include": ["id"]}, "under include or under exclude"),
        ({}, "under include or under exclude"),
    ],
)
def test_lists_that_can_not_be(run: Run, columns: dict[str, Any], message: str) -> None:
    """Refused before anything is made."""
    run.source.run(*PEOPLE)
    with pytest.raises(ConfigError, match=message):
        run.once({"public.people": {"columns": columns}})
    assert not (run.place / "state").exists()
    assert run.target.rows(COLUMNS.format("people")) == []


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("CREATE TABLE people (id int PRIMARY KEY,secret int, twice int GENERATED ALWAYS AS (secret) STORED)",
         r"people\.twice is generated from a column that the filter leaves out.*Leave twice out too"),
        ("CREATE TABLE parents (secret int); CREATE TABLE people (id int PRIMARY KEY) INHERITS (parents)",
         "has them in common with others"),
    ],
)  # fmt: skip
def test_tables_whose_columns_are_needed(run: Run, table: str, message: str) -> None:
    """By other columns, or by other tables."""
    run.source.run(table)
    with pytest.raises(ConfigError, match=message):
        run.once({"public.people": {"columns": {"exclude": ["secret"]}}})


@pytest.mark.spark
def test_another_list_for_targets_that_were_made(run: Run, spark: SparkSession) -> None:
    """They would have values of before, and NULL from now on."""
    run.source.run(*PEOPLE, "CREATE TABLE other (id int PRIMARY KEY, v text)")
    run.once(WITHOUT, "duckdb")
    for other in (
        {},
        {"public.people": {"columns": {"exclude": ["secret"]}}},
        {"public.people": {"columns": {"exclude": ["secret", "no", "born"]}}},
        {**WITHOUT, "public.other": {"columns": {"exclude": ["v"]}}},
    ):
        with pytest.raises(ConfigError, match=r"the targets have public\.\w+ with other columns"):
            run.once(other, "duckdb")
    run.source.run("ALTER TABLE people RENAME secret TO hidden")
    run.once({"public.people": {"columns": {"exclude": ["hidden", "no"]}}}, "duckdb")
    run.once(WITHOUT, "duckdb")
