"""Tables that a pipeline leaves out: what needs them, and tables that go and come back by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import ChangeRefusedError
from pgsluice.schema.match import TableMatcher

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

OUT = ("public.hidden", "private.*")
RELATIONS = (
    "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname IN ('public', 'private') AND c.relkind IN ('r', 'v', 'm', 'S', 'i') ORDER BY 1"
)

pytestmark = pytest.mark.both_versions


class Run:
    """A pipeline that leaves some tables out: by its filter, or by the list of its publication."""

    def __init__(self, source: Database, target: Database, place: Path, by: str) -> None:
        self._source, self._target, self._place, self._by = source, target, place, by

    def once(self) -> list[str]:
        """Catch up; what was said to be left out."""
        options = {"exclude_tables": OUT} if self._by == "list" else {}
        source = PostgresSource(self._source.url, init=True, **options)  # type: ignore[arg-type]
        wanted = TableMatcher.parse(["*.*"], OUT).matches if self._by == "filter" else None
        with capture_logs() as logs:
            sink = PostgresSink(self._target.url)
            assert Pipeline(source, sink, state_dir=self._place, wanted=wanted).run(once=True)
        return [
            str(each["name"])
            for each in logs
            if each["event"] == "left out" and each["log_level"] == "warning"
        ]


@pytest.fixture(params=["filter", "list"])
def pipeline(
    request: pytest.FixtureRequest, database: Database, target_database: Database, tmp_path: Path
) -> Run:
    """Before its first run."""
    database.run(
        "CREATE SCHEMA private",
        "CREATE TABLE t (id int PRIMARY KEY, v text DEFAULT 'x')",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
    )
    return Run(database, target_database, tmp_path, request.param)


def ids(database: Database, table: str) -> list[int]:
    """The keys of a table."""
    return [row[0] for row in database.rows(f"SELECT id FROM {table} ORDER BY id")]


@pytest.mark.parametrize(
    ("rename", "name"),
    [("ALTER TABLE t RENAME TO hidden", "hidden"), ("ALTER TABLE t SET SCHEMA private", "private.t")],
)
def test_a_table_that_is_renamed_away(
    database: Database, target_database: Database, pipeline: Run, rename: str, name: str
) -> None:
    """Rows stop exactly there, also inside of the transaction."""
    pipeline.once()
    database.run(
        "INSERT INTO t VALUES (2)",
        f"BEGIN; INSERT INTO t VALUES (3); {rename}; INSERT INTO {name} VALUES (4); COMMIT",
        f"INSERT INTO {name} VALUES (5); ALTER TABLE {name} ADD w int",
        "INSERT INTO u VALUES (1)",
    )
    pipeline.once()
    database.run(f"INSERT INTO {name} VALUES (6)")
    pipeline.once()
    assert ids(target_database, name) == [1, 2, 3]
    assert ids(target_database, "u") == [1]


def test_a_table_that_is_away_for_a_while(
    database: Database, target_database: Database, pipeline: Run
) -> None:
    """What it has got meanwhile is not in the stream: it is copied anew."""
    pipeline.once()
    database.run(
        "ALTER TABLE t RENAME TO hidden",
        "INSERT INTO hidden VALUES (2)",
        "ALTER TABLE hidden RENAME TO t",
        "INSERT INTO t VALUES (3)",
    )
    pipeline.once()
    pipeline.once()
    assert ids(target_database, "t") == [1, 2, 3]
    database.run("ALTER TABLE t SET SCHEMA private", "INSERT INTO private.t VALUES (4)")
    pipeline.once()
    database.run("INSERT INTO private.t VALUES (5)", "ALTER TABLE private.t SET SCHEMA public")
    pipeline.once()
    database.run("INSERT INTO t VALUES (6)")
    pipeline.once()
    assert ids(target_database, "t") == [1, 2, 3, 4, 5, 6]


def test_a_schema_that_is_renamed_away_and_back(
    database: Database, target_database: Database, pipeline: Run
) -> None:
    """The same for all of its tables."""
    database.run("DROP SCHEMA private", "CREATE SCHEMA open", "CREATE TABLE open.t (id int PRIMARY KEY)")
    pipeline.once()
    database.run(
        "INSERT INTO open.t VALUES (1)",
        "ALTER SCHEMA open RENAME TO private",
        "INSERT INTO private.t VALUES (2)",
    )
    pipeline.once()
    assert ids(target_database, "private.t") == [1]
    database.run("ALTER SCHEMA private RENAME TO open", "INSERT INTO open.t VALUES (3)")
    pipeline.once()
    pipeline.once()
    assert ids(target_database, "open.t") == [1, 2, 3]


def test_a_table_that_is_renamed_into_the_pipeline(
    database: Database, target_database: Database, pipeline: Run
) -> None:
    """It is made with its key and copied."""
    database.run("CREATE TABLE hidden (id int PRIMARY KEY, v text NOT NULL DEFAULT 'h')")
    database.run("INSERT INTO hidden VALUES (1)")
    pipeline.once()
    database.run(
        "INSERT INTO hidden VALUES (2)", "ALTER TABLE hidden RENAME TO seen", "INSERT INTO seen VALUES (3)"
    )
    pipeline.once()
    pipeline.once()
    assert ids(target_database, "seen") == [1, 2, 3]
    columns = "SELECT column_name, is_nullable, column_default FROM information_schema.columns"
    query = f"{columns} WHERE table_name = 'seen' ORDER BY 1"
    assert target_database.rows(query) == database.rows(query)
    assert target_database.rows("SELECT FROM pg_index WHERE indrelid = 'seen'::regclass AND indisprimary")


def test_what_needs_a_table_that_is_left_out(
    database: Database, target_database: Database, pipeline: Run
) -> None:
    """It is left out too and named, as at the first copy; all else goes on."""
    database.run(
        "CREATE TABLE hidden (id int PRIMARY KEY)",
        "CREATE VIEW early AS SELECT id FROM hidden",
        "CREATE SEQUENCE counter",
    )
    assert pipeline.once() == ["public.early"]
    database.run(
        "CREATE VIEW v AS SELECT id FROM hidden",
        "CREATE SCHEMA more CREATE VIEW a AS SELECT id FROM hidden CREATE VIEW b AS SELECT id FROM more.a",
        "CREATE VIEW over AS SELECT id FROM v",
        "CREATE OR REPLACE VIEW early AS SELECT id, 1 AS x FROM hidden",
        "COMMENT ON VIEW v IS 'changed'",
        "CREATE MATERIALIZED VIEW m AS SELECT id FROM hidden",
        "CREATE INDEX ON m (id)",
        "REFRESH MATERIALIZED VIEW m",
        "CREATE STATISTICS st ON id, (id + 1) FROM hidden",
        "CREATE FUNCTION f() RETURNS SETOF hidden LANGUAGE sql AS 'SELECT * FROM hidden'",
        "CREATE RULE r AS ON INSERT TO u DO ALSO INSERT INTO hidden VALUES (1)",
        "CREATE POLICY p ON t USING (EXISTS (SELECT FROM hidden))",
        "ALTER TABLE t ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES hidden NOT VALID",
        "CREATE TABLE n (id int PRIMARY KEY REFERENCES hidden DEFERRABLE INITIALLY DEFERRED)",
        "ALTER TABLE t RENAME CONSTRAINT k TO kk",
        "ALTER SEQUENCE counter OWNED BY hidden.id",
        "CREATE TABLE private.s (id serial PRIMARY KEY)",
        "CREATE VIEW fine AS SELECT id FROM t",
    )
    assert pipeline.once() == [
        *(
            "public.v",
            "more.a",
            "more.b",
            "public.over",
            "public.m",
            "public.st",
            "public.f()",
            "r on public.u",
            "p on public.t",
        ),
        *("k on public.t", "n_id_fkey on public.n", "private.s_id_seq"),
    ]
    wanted = ["counter", "fine", "n", "n_pkey", "t", "t_pkey", "u", "u_pkey"]
    assert target_database.rows(RELATIONS) == [(f"public.{name}",) for name in wanted]
    database.run(
        "CREATE OR REPLACE VIEW v AS SELECT id FROM t",
        "DROP MATERIALIZED VIEW m",
        "DROP VIEW early",
        "ALTER TABLE t DROP CONSTRAINT kk",
        "DROP POLICY p ON t",
        "DROP STATISTICS st",
    )
    pipeline.once()
    assert target_database.rows("SELECT id FROM v") == [(1,)]


def test_a_view_that_needs_such_a_table_from_now_on(
    database: Database, target_database: Database, pipeline: Run
) -> None:
    """It can't stay as it was: the run stops and says what to do."""
    database.run("CREATE TABLE hidden (id int PRIMARY KEY)", "CREATE VIEW v AS SELECT id FROM t")
    pipeline.once()
    database.run("CREATE OR REPLACE VIEW v AS SELECT id FROM hidden", "INSERT INTO t VALUES (2)")
    with pytest.raises(ChangeRefusedError, match=r"the target does not have public\.hidden.*Drop the view"):
        pipeline.once()
    target_database.run("DROP VIEW v")
    pipeline.once()
    assert ids(target_database, "t") == [1, 2]
