"""Words of the schema that have values of columns which rules change: they stay behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from pgsluice.errors import ConfigError, TransformError
from tests.modifiers.ruled import Ruled

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

pytestmark = pytest.mark.spark

PEOPLE = (
    """CREATE TABLE people (id int PRIMARY KEY, mail text DEFAULT 'canary default', pay int DEFAULT 7654321,
    at timestamptz DEFAULT now(), no serial, kind text DEFAULT 'plain',
    CONSTRAINT fine CHECK (kind <> 'gone'), CONSTRAINT short CHECK (mail <> ''),
    CONSTRAINT telling CHECK (mail <> 'canary check'))""",
    "CREATE INDEX telling_index ON people (kind) WHERE mail = 'canary index'",
    "CREATE INDEX plain_index ON people (mail) WITH (fillfactor = 70)",
    "CREATE VIEW telling_view AS SELECT id FROM people WHERE mail = 'canary view'",
    "CREATE VIEW over_it AS SELECT id FROM telling_view",
    "CREATE VIEW plain_view AS SELECT id, mail FROM people",
    "CREATE POLICY telling_policy ON people USING (mail = 'canary policy')",
    "COMMENT ON COLUMN people.mail IS 'canary comment'",
    "COMMENT ON INDEX plain_index IS 'canary comment of an index'",
    "COMMENT ON COLUMN people.kind IS 'stays'",
    "INSERT INTO people (id) VALUES (1)",
)
SMALL = "CREATE TABLE people (id int PRIMARY KEY, mail text)", "INSERT INTO people VALUES (1, 'x')"
NAMES = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('i', 'v')"
    " UNION ALL SELECT conname FROM pg_constraint WHERE conrelid = 'people'::regclass AND contype = 'c'"
    " UNION ALL SELECT polname FROM pg_policy ORDER BY 1"
)
DEFAULTS = (
    "SELECT attname, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid"
    " AND attnum = adnum WHERE adrelid = 'people'::regclass ORDER BY 1"
)


@pytest.fixture
def run(database: Database, target_database: Database, tmp_path: Path, spark: SparkSession) -> Ruled:
    """Before its first run."""
    return Ruled(database, target_database, tmp_path)


@pytest.mark.both_versions
def test_the_first_copy(run: Ruled) -> None:
    """Values in the words of the schema don't come; what makes values by itself, and all else, does."""
    run.source.run(*PEOPLE)
    run.rule("people", mail="masking", pay={"name": "bucket", "parameters": {"size": 1000}}, at="noop")
    with capture_logs() as logs:
        run.once()
    run.require_no_canary()
    assert "7654321" not in str(run.target.rows("SELECT * FROM pg_attrdef"))
    names = ["fine", "people_pkey", "plain_index", "plain_view", "short"]
    assert [name for (name,) in run.target.rows(NAMES)] == names
    found = dict(run.target.rows(DEFAULTS))
    assert found.keys() == {"at", "kind", "no"}
    assert run.target.rows("SELECT col_description('people'::regclass, 6)") == [("stays",)]
    told = [each["name"] for each in logs if each["event"] == "left out" and each["kind"] == "DEFAULT"]
    assert told == ["public.people.mail", "public.people.pay"]


@pytest.mark.both_versions
def test_changes_of_the_schema(run: Ruled) -> None:
    """Defaults, conditions and comments that come later; rows of before get the value through the rule."""
    run.source.run(
        "CREATE TABLE people (id int PRIMARY KEY, mail text)", "INSERT INTO people VALUES (1, 'x')"
    )
    run.rule("people", mail="masking")
    run.once()
    run.source.run(
        "ALTER TABLE people ADD born text NOT NULL DEFAULT 'canary born', ADD now text DEFAULT 'plain'",
        "ALTER TABLE people ALTER mail SET DEFAULT 'canary default'",
        "ALTER TABLE people ADD CONSTRAINT c CHECK (mail <> 'canary check')",
        "CREATE INDEX i ON people (id) WHERE mail = 'canary index'",
        "CREATE INDEX j ON people (mail)",
        "COMMENT ON COLUMN people.mail IS 'canary comment'",
        "CREATE VIEW v AS SELECT id FROM people WHERE born <> 'canary view'",
        "CREATE TABLE plain (id int PRIMARY KEY); INSERT INTO people VALUES (2, 'canary', 'canary', '')",
        "INSERT INTO people (id) VALUES (3)",
        "ALTER TABLE people RENAME mail TO post",
        "ALTER TABLE people ALTER post SET DEFAULT 'canary again'",
        "UPDATE people SET now = 'then' WHERE id = 2",
    )
    run.rule("people", post="masking", born="masking")
    with capture_logs() as logs:
        run.once()
        run.once()  # what is copied anew is in place
    run.require_no_canary()
    assert run.rows("SELECT id, post, born, now FROM public.people ORDER BY 1") == [
        (1, "*", "*" * 11, "plain"),
        (2, "*" * 6, "*" * 6, "then"),
        (3, "*" * 14, "*" * 11, "plain"),
    ]
    assert [name for (name,) in run.target.rows(NAMES)] == ["j", "people_pkey", "plain_pkey"]
    told = [each["name"] for each in logs if each["event"] == "left out" and each["kind"] == "DEFAULT"]
    assert sorted(set(told)) == ["public.people.born", "public.people.mail", "public.people.post"]
    passed = run.lines("schema_log")
    assert passed
    assert not [each for each in passed if each["statement"] is not None]


def test_a_column_that_must_have_a_rule(run: Ruled) -> None:
    """Under strict validation its DEFAULT stops the stream, although no row follows; as does a new table."""
    run.source.run(
        "CREATE TABLE people (id int PRIMARY KEY, mail text)", "INSERT INTO people VALUES (1, 'x')"
    )
    run.rule("people", id="noop", mail="masking")
    run.modifiers["transformations"]["validation_mode"] = "strict"
    run.once()
    for statement in (
        "ALTER TABLE people ADD secret text DEFAULT 'canary'",
        "CREATE TABLE other (id int PRIMARY KEY, secret text DEFAULT 'canary')",
    ):
        late = run.pipeline()
        late._check = None  # as if it had come a moment later
        run.source.run(statement)
        with pytest.raises(TransformError, match=r"has columns without a rule, and validation is strict: "):
            late.run(once=True)
        run.require_no_canary()
        assert not run.lines("schema_log")
        if "people" in statement:
            run.rule("people", id="noop", mail="masking", secret="masking")
    run.rule("other", id="noop", secret="masking")
    run.once("INSERT INTO other VALUES (1)", "INSERT INTO people VALUES (2, 'canary')")
    run.once()
    run.require_no_canary()
    assert run.rows("SELECT * FROM public.people ORDER BY 1") == [(1, "*", "*" * 6), (2, "*" * 6, "*" * 6)]
    assert run.rows("SELECT * FROM public.other") == [(1, "*" * 6)]


def test_strict_tables_alone(run: Ruled) -> None:
    """Under table_level the others may get columns."""
    run.source.run("CREATE TABLE people (id int PRIMARY KEY, mail text)", "CREATE TABLE other (id int)")
    run.source.run("ALTER TABLE other REPLICA IDENTITY FULL")
    run.targets = ["duckdb"]
    run.rule("people", id="noop", mail="masking").rule("other", id="noop")
    section = run.modifiers["transformations"]
    section["validation_mode"] = "table_level"
    for each, mode in zip(section["table_transformers"], ("strict", "relaxed"), strict=True):
        each["validation_mode"] = mode
    run.once()
    run.once("ALTER TABLE other ADD more text DEFAULT 'fine'")
    late = run.pipeline()
    late._check = None
    run.source.run("ALTER TABLE people ADD secret text DEFAULT 'canary'")
    with pytest.raises(TransformError, match=r"public\.people has columns without a rule.*: secret"):
        late.run(once=True)
    run.require_no_canary()


@pytest.mark.parametrize(
    ("column", "rules", "message"),
    [
        ("low text GENERATED ALWAYS AS (lower(mail)) STORED", {"low": "masking"},
         r"people\.low: the column is generated.*made from a rule: mail"),
        ("is_me bool GENERATED ALWAYS AS (mail = 'canary') STORED", {"mail": "masking"},
         r"people\.is_me: is generated from a column whose values a rule changes"),
    ],
)  # fmt: skip
def test_generated_columns(run: Ruled, column: str, rules: dict[str, str], message: str) -> None:
    """A target makes their values anew: from plain ones, or by an expression that shows one."""
    run.source.run(f"CREATE TABLE people (id int PRIMARY KEY, mail text, {column})")
    run.rule("people", **rules)
    run.targets = ["postgres"]
    with pytest.raises(ConfigError, match=message):
        run.once()
    assert not run.target.rows("SELECT FROM pg_tables WHERE tablename = 'people'")
