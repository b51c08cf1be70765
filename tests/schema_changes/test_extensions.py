"""Extensions in the stream: with what they need, in the source's version and schema, changed and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import PostgresSink
from pgsluice.errors import ChangeRefusedError
from pgsluice.sinks.postgres.config import PostgresConfig
from tests.fix_pg import create_database, drop_database
from tests.pipeline.test_run import source_rows
from tests.schema_changes.test_ways import run

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from tests.fix_pg import Database

EXTENSIONS = (
    "SELECT e.extname::text, e.extversion, n.nspname::text FROM pg_extension e"
    " JOIN pg_namespace n ON n.oid = e.extnamespace ORDER BY 1"
)
TABLE = "CREATE TABLE t (id int PRIMARY KEY)"


def test_contrib(pg15: EmbeddedPostgres, tmp_path: Path) -> None:
    """With others that it needs, of an older version; updated, moved, and dropped with what is made of it."""
    source, target = create_database(pg15), create_database(pg15)
    try:
        source.run(TABLE)

        def once() -> None:
            run(source.url, PostgresSink(target.url), tmp_path)
            assert target.rows(EXTENSIONS) == source.rows(EXTENSIONS)
            assert source_rows(target, "t") == source_rows(source, "t")

        once()
        source.run(
            "CREATE SCHEMA geo",
            "CREATE EXTENSION earthdistance SCHEMA geo CASCADE",
            "ALTER TABLE t ADD box geo.cube",
            "INSERT INTO t VALUES (1, '(1,2),(3,4)')",
            "CREATE INDEX ON t USING gist (box)",
            "CREATE EXTENSION hstore VERSION '1.4' SCHEMA geo",
            "CREATE EXTENSION citext",
        )
        once()
        assert {name for name, *_ in target.rows(EXTENSIONS)} >= {"cube", "earthdistance", "hstore", "citext"}
        source.run(
            "ALTER EXTENSION hstore UPDATE TO '1.6'",
            "ALTER EXTENSION hstore SET SCHEMA public",
            "ALTER TABLE t ADD h hstore, ADD c citext",
            "INSERT INTO t VALUES (2, '(5)', 'a=>1', 'Text')",
        )
        once()
        source.run(
            "DROP EXTENSION cube CASCADE", "INSERT INTO t VALUES (3)", "DROP EXTENSION hstore, citext CASCADE"
        )
        once()
        assert [name for name, *_ in target.rows(EXTENSIONS)] == ["plpgsql"]
    finally:
        drop_database(source)
        drop_database(target)


def test_of_the_newest_version(database: Database, target_database: Database, tmp_path: Path) -> None:
    """A type that is an extension's, with its operators in an index."""
    database.run(TABLE)
    run(database.url, PostgresSink(target_database.url), tmp_path)
    database.run(
        "CREATE SCHEMA v; CREATE EXTENSION vector SCHEMA v",
        "ALTER TABLE t ADD e v.vector(3)",
        "INSERT INTO t VALUES (1, '[1,2,3]')",
        "CREATE INDEX ON t USING hnsw (e v.vector_l2_ops)",
        "ALTER EXTENSION vector SET SCHEMA public",
        "INSERT INTO t VALUES (2, '[4,5,6]')",
    )
    run(database.url, PostgresSink(target_database.url), tmp_path)
    assert target_database.rows(EXTENSIONS) == database.rows(EXTENSIONS)
    assert source_rows(target_database, "t") == source_rows(database, "t")
    assert len(target_database.rows("SELECT FROM pg_indexes WHERE tablename = 't'")) == 2


def test_a_target_without_it(pg15: EmbeddedPostgres, target_database: Database, tmp_path: Path) -> None:
    """The run stops and says what to do; without that kind of change it goes on."""
    source = create_database(pg15)
    try:
        source.run(TABLE)
        run(source.url, PostgresSink(target_database.url), tmp_path)
        source.run("CREATE EXTENSION hstore", "INSERT INTO t VALUES (1)")
        with pytest.raises(ChangeRefusedError, match="does not have the extension hstore") as caught:
            run(source.url, PostgresSink(target_database.url), tmp_path)
        assert "schema_exclude: [extension]" in str(caught.value.remedy)
        options = {"url": target_database.url, "schema_exclude": ["extension"]}
        run(source.url, PostgresSink(PostgresConfig.model_validate(options)), tmp_path)
        assert source_rows(target_database, "t") == source_rows(source, "t")
    finally:
        drop_database(source)
