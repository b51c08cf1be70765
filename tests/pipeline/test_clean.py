"""A target that had things before: cleaned of what is the source's, once, and of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import TargetError, TargetSchemaError
from pgsluice.schema.renames import Renames
from pgsluice.sinks.postgres import PostgresConfig
from tests.pipeline.test_run import source_rows
from tests.pipeline.test_schema_copy import OBJECTS, ROWS, TYPES, copy, schema_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

OTHER = """
CREATE SCHEMA sales;
CREATE TYPE sales.state AS ENUM ('gone');
CREATE TABLE sales.bill (id int, other sales.state);
INSERT INTO sales.bill VALUES (1, 'gone');
CREATE FUNCTION sales.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER t BEFORE INSERT ON sales.bill FOR EACH ROW EXECUTE FUNCTION sales.note();
CREATE VIEW sales.open_bills AS SELECT id FROM sales.bill;
"""


@pytest.fixture
def source(database: Database) -> Database:
    """Objects of many kinds, with rows."""
    database.run(TYPES, OBJECTS, ROWS)
    return database


def test_objects_of_the_source_are_made_anew(
    source: Database, target_database: Database, tmp_path: Path
) -> None:
    """What had the same names is replaced; the rest stays, and so does the schema in later runs."""
    target_database.run(OTHER, "CREATE TABLE sales.mine (id int)", "INSERT INTO sales.mine VALUES (7)")
    copy(source, target_database, tmp_path, clean=True)
    assert target_database.rows("SELECT id FROM sales.mine") == [(7,)]
    target_database.run("DROP TABLE sales.mine")
    assert schema_of(target_database) == schema_of(source)
    before = target_database.rows("SELECT 'sales.bill'::regclass::oid")
    source.run("INSERT INTO sales.bill (customer, total) VALUES (7, 70)")
    copy(source, target_database, tmp_path, clean=True)
    assert target_database.rows("SELECT 'sales.bill'::regclass::oid") == before
    wanted = source_rows(source, "sales.bill")
    assert source_rows(target_database, "sales.bill") == wanted
    print(f"compared {len(wanted)} rows")


def test_what_is_in_the_way(source: Database, target_database: Database, tmp_path: Path) -> None:
    """Things of others that need an object of the source are named, and nothing is dropped."""
    target_database.run(
        OTHER,
        "CREATE VIEW a_view AS SELECT id FROM sales.bill",
        "CREATE TABLE of_type (s sales.state)",
        "ALTER TABLE sales.bill ADD PRIMARY KEY (id)",
        "CREATE TABLE refers (b int REFERENCES sales.bill)",
        "CREATE TABLE inherits () INHERITS (sales.bill)",
    )
    before = schema_of(target_database)
    with pytest.raises(TargetSchemaError, match=r"not the source's: .*clean: false") as refused:
        copy(source, target_database, tmp_path, clean=True)
    for named in (
        "view public.a_view",
        "public.of_type",
        "refers_b_fkey on public.refers",
        "public.inherits",
    ):
        assert named in str(refused.value)
    assert schema_of(target_database) == before
    assert target_database.rows("SELECT id FROM sales.bill") == [(1,)]


def test_a_copy_that_begins_again_does_not_clean_again(
    source: Database, target_database: Database, tmp_path: Path
) -> None:
    """What is made between a copy that broke off, without progress, and the next one stays."""
    target_database.run(
        OTHER,
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF current_query() LIKE '%TABLE sales%' THEN RAISE EXCEPTION 'not here'; END IF; END $$",
        "CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE') "
        "EXECUTE FUNCTION refuse()",
        "ALTER EVENT TRIGGER refuse ENABLE ALWAYS",
    )
    with pytest.raises(TargetSchemaError, match="not here"):
        copy(source, target_database, tmp_path, clean=True)
    assert target_database.rows("SELECT to_regclass('sales.bill')") == [(None,)]
    target_database.run("DROP EVENT TRIGGER refuse", "CREATE TABLE sales.nothing ()")
    kept = target_database.rows("SELECT 'sales.nothing'::regclass::oid")
    copy(source, target_database, tmp_path, clean=True)
    assert target_database.rows("SELECT 'sales.nothing'::regclass::oid") == kept
    assert source_rows(target_database, "sales.bill") == source_rows(source, "sales.bill")


def test_the_source_is_never_cleaned(source: Database, tmp_path: Path) -> None:
    """Under other names a database may be its own target, but not a clean one."""
    before = schema_of(source)
    pipeline = Pipeline(
        PostgresSource(source.url, tables=["sales.day"], init=True),
        PostgresSink(PostgresConfig(url=source.url, clean=True)),
        state_dir=tmp_path / "state",
        renames=Renames.parse({"sales": "copy"}, {}),
    )
    with pytest.raises(TargetError, match="source's own objects"):
        pipeline.run(once=True)
    assert schema_of(source) == before


@pytest.mark.parametrize("pg", ["pg15"], indirect=True)  # roles belong to a server: the target is on another
def test_roles(source: Database, target_database: Database, tmp_path: Path) -> None:
    """Owners and those with rights are made where they are missing, without password or power."""
    names = [f"{name}_{source.name}" for name in ("owner", "reader", "writer")]
    owner, reader, writer = names
    source.run(
        f"CREATE ROLE {owner} NOLOGIN CREATEDB",
        f"CREATE ROLE {reader} LOGIN PASSWORD 'secret' SUPERUSER",
        f"CREATE ROLE {writer} NOLOGIN",
        f"ALTER TABLE sales.bill OWNER TO {owner}",
        f"GRANT SELECT ON sales.bill TO {reader}",
        f"CREATE POLICY p ON sales.day TO {writer} USING (true)",
    )
    copied = (
        f"SELECT pg_get_userbyid(relowner)::text, has_table_privilege('{reader}', pg_class.oid, 'SELECT'), "
        "polroles[1]::regrole::text FROM pg_class, pg_policy WHERE relname = 'bill'"
    )
    wanted = source.rows(copied)
    copy(source, target_database, tmp_path, roles=True)
    assert target_database.rows(copied) == wanted
    found = target_database.rows(
        f"SELECT rolname::text, rolcanlogin, rolsuper, rolcreatedb, rolpassword FROM pg_authid "
        f"WHERE rolname LIKE '%{source.name}' ORDER BY 1"
    )
    assert found == [
        (owner, False, False, False, None),
        (reader, True, False, False, None),
        (writer, False, False, False, None),
    ]
    for database in (source, target_database):
        with psycopg.connect(database.url, autocommit=True) as conn:
            for name in names:
                conn.execute(f"DROP OWNED BY {name} CASCADE")
                conn.execute(f"DROP ROLE {name}")
