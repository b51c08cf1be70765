"""The schema of a newer server in an older one: rules that it writes otherwise, and those that it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.schema.statements import SchemaStatement
from pgsluice.sinks.postgres.older import readable
from tests.fix_pg import create_database, drop_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_pg import Database

RULES = (
    "CREATE TABLE parent (id int PRIMARY KEY, a text, b text)",
    "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
    (
        'CREATE TABLE "odd, ""child" (f text DEFAULT E\'x\\n    NOT NULL a,\\n\', CONSTRAINT mine NOT NULL b,'
        " PRIMARY KEY (id)) INHERITS (parent)"
    ),
    "CREATE TABLE alone (id int PRIMARY KEY, b int CONSTRAINT mine NOT NULL NO INHERIT, c int)",
    "CREATE TABLE unchecked (id int PRIMARY KEY, b int, CHECK (b > 0) NOT ENFORCED)",
    "ALTER TABLE unchecked ADD CONSTRAINT later NOT NULL b NOT VALID",
    "INSERT INTO parent VALUES (1, 'p')",
    "INSERT INTO child VALUES (2, 'c')",
    "INSERT INTO \"odd, \"\"child\" VALUES (3, 'o', 'b')",
)

NOT_NULL = """
SELECT attrelid::regclass::text, attname FROM pg_attribute
 WHERE attrelid::regclass::text IN ('parent', 'child', '"odd, ""child"', 'alone') AND attnum > 0
   AND attnotnull
 ORDER BY 1, 2"""


@pytest.fixture
def older(pg15: EmbeddedPostgres) -> Iterator[Database]:
    """A database on PostgreSQL 15."""
    made = create_database(pg15)
    yield made
    drop_database(made)


def test_rules_of_18_in_15(database: Database, older: Database, tmp_path: Path) -> None:
    """Inherited columns that may not be NULL are so there too, and rules that it can't have are left out."""
    database.run(*RULES)
    source = PostgresSource(database.url, init=True)
    assert Pipeline(source, PostgresSink(older.url), state_dir=tmp_path / "state").run(once=True)
    wanted = database.rows(NOT_NULL)
    assert ('"odd, ""child"', "b") in wanted
    assert older.rows(NOT_NULL) == wanted
    for table in ("parent", '"odd, ""child"'):
        assert sorted(older.rows(f"TABLE {table}")) == sorted(database.rows(f"TABLE {table}"))
    assert older.rows("SELECT conname FROM pg_constraint WHERE conrelid = 'unchecked'::regclass") == [
        ("unchecked_pkey",)
    ]


def test_a_new_target_reads_them_as_they_are() -> None:
    """Nothing is changed without need."""
    body = "CREATE TABLE public.t (\n    f text,\n    NOT NULL id,\n    NOT NULL a\n)\nINHERITS (p);"
    created = SchemaStatement("TABLE", "public.t", body)
    assert readable(created, 180000) is created
    changed = readable(created, 170000)
    assert changed is not None
    assert changed.sql == (
        "CREATE TABLE public.t (\n    f text\n)\nINHERITS (p);"
        "\nALTER TABLE ONLY public.t ALTER COLUMN id SET NOT NULL;"
        "\nALTER TABLE ONLY public.t ALTER COLUMN a SET NOT NULL;"
    )
