"""Usable identities: our test of each kind of table against what the server really does to UPDATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.source.connect import connect
from pgsluice.source.identity import read_tables

if TYPE_CHECKING:
    from tests.fix_pg import Database

TABLES = {
    "keyed": "CREATE TABLE keyed (id int PRIMARY KEY, v text)",
    "covering": "CREATE TABLE covering (id int, v text, PRIMARY KEY (id) INCLUDE (v))",
    "keyless": "CREATE TABLE keyless (id int, v text)",
    "unique_only": "CREATE TABLE unique_only (id int NOT NULL UNIQUE, v text)",
    "late_key": "CREATE TABLE late_key (id int PRIMARY KEY DEFERRABLE, v text)",
    "by_index": "CREATE TABLE by_index (id int NOT NULL, v text);"
    " CREATE UNIQUE INDEX by_index_i ON by_index (id);"
    " ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_i",
    "lost_index": "CREATE TABLE lost_index (id int NOT NULL, v text);"
    " CREATE UNIQUE INDEX lost_i ON lost_index (id);"
    " ALTER TABLE lost_index REPLICA IDENTITY USING INDEX lost_i; DROP INDEX lost_i",
    "nothing": "CREATE TABLE nothing (id int PRIMARY KEY, v text);"
    " ALTER TABLE nothing REPLICA IDENTITY NOTHING",
    "whole": "CREATE TABLE whole (id int, v text); ALTER TABLE whole REPLICA IDENTITY FULL",
    "whole_generated": "CREATE TABLE whole_generated (id int, v text, g int GENERATED ALWAYS AS (1) STORED);"
    " ALTER TABLE whole_generated REPLICA IDENTITY FULL",
    "key_beside_generated": "CREATE TABLE key_beside_generated"
    " (id int PRIMARY KEY, v text, g int GENERATED ALWAYS AS (id + 1) STORED)",
    "Odd.Name": 'CREATE TABLE "Odd.Name" (id int PRIMARY KEY, v text)',
    "leaf": "CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
    " CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (9)",
    "leaf_of_full": "CREATE TABLE root_full (id int, v text) PARTITION BY RANGE (id);"
    " ALTER TABLE root_full REPLICA IDENTITY FULL;"
    " CREATE TABLE leaf_of_full PARTITION OF root_full FOR VALUES FROM (0) TO (9)",
}


@pytest.mark.both_versions
def test_usable_is_what_the_server_accepts(database: Database) -> None:
    """For every kind of identity: UPDATE of the published table works exactly when we call it usable."""
    with database.connect() as conn:
        for make in TABLES.values():
            conn.execute(make)
        conn.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        works = {name: _update_works(conn, name) for name in TABLES}
    with connect(database.url) as conn:
        found = {table.name: table for table in read_tables(conn)}
    assert {name: found[name].usable for name in TABLES} == works
    assert not works["keyless"]
    assert not works["late_key"]
    assert not works["leaf_of_full"]
    assert works["whole_generated"] == (database.server.bin_dir.parts[-2] == "15")
    assert found["covering"].key == ("id",)
    assert found["late_key"].problem == "its primary key is DEFERRABLE"
    assert found["leaf"].root == found["root"].relid
    assert found["Odd.Name"].in_sql == 'public."Odd.Name"'


@pytest.mark.both_versions
def test_a_generated_key_is_not_usable(database: Database) -> None:
    """Its column is not in the stream, so rows could not be found by it; on 18 the server refuses as well."""
    database.run("CREATE TABLE t (id int, k int GENERATED ALWAYS AS (id + 1) STORED PRIMARY KEY)")
    with connect(database.url) as conn:
        (table,) = read_tables(conn)
    assert table.problem == "its primary key has a generated column, which is not published"


def test_what_is_not_listed(database: Database) -> None:
    """Temporary and unlogged tables, views and system catalogs are not candidates."""
    database.run("CREATE UNLOGGED TABLE u (id int PRIMARY KEY)", "CREATE VIEW v AS SELECT 1")
    with connect(database.url) as conn:
        conn.execute("CREATE TEMP TABLE t (id int PRIMARY KEY)")
        assert read_tables(conn) == ()


def _update_works(conn: psycopg.Connection, name: str) -> bool:
    quoted = psycopg.sql.Identifier(name)
    conn.execute(psycopg.sql.SQL("INSERT INTO {} (id, v) VALUES (1, 'a')").format(quoted))
    try:
        conn.execute(psycopg.sql.SQL("UPDATE {} SET v = 'b'").format(quoted))
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InvalidColumnReference):
        return False
    return True
