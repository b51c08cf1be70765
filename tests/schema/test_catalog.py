"""Types and keys as the catalog of a real server gives them."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from pgsluice.schema.catalog import completed, describe_types
from pgsluice.schema.pgtypes import resolve
from pgsluice.schema.table import Column, PgType, TableVersion

ROOT = Path(__file__).resolve().parents[2]
AMOUNT = ((12 << 16) | 2) + 4  # the typmod of numeric(12,2)

MAKE = (
    "CREATE SCHEMA kinds",
    "CREATE TYPE kinds.mood AS ENUM ('sad', 'ok')",
    "CREATE DOMAIN kinds.amount AS numeric(12,2)",
    "CREATE DOMAIN kinds.price AS kinds.amount",
    "CREATE DOMAIN kinds.amounts AS numeric(12,2)[]",
    "CREATE TYPE kinds.pair AS (a int4, b kinds.price)",
    "CREATE TYPE kinds.span AS RANGE (SUBTYPE = float8)",
)


@pytest.fixture
def conn(database):
    """A connection to a database with types of every kind."""
    database.run(*MAKE)
    with database.connect() as connection:
        yield connection


def describe(conn, name: str) -> PgType:
    """What describe_types says of one type."""
    oid = conn.execute("SELECT %s::regtype::oid::int8", (name,)).fetchone()[0]
    (found,) = describe_types(conn, [oid]).values()
    return resolve(oid, -1, {oid: found})


@pytest.mark.both_versions
def test_types_that_users_made(conn):
    """Enums, domains of domains and of arrays, composites, ranges, and arrays of all of them."""
    assert (describe(conn, "kinds.mood").kind, describe(conn, "kinds.mood").schema) == ("enum", "kinds")
    assert describe(conn, "kinds.pair").kind == "composite"
    assert describe(conn, "kinds.span").kind == "range"
    assert describe(conn, "kinds.mood[]").element == describe(conn, "kinds.mood")
    assert describe(conn, "kinds.pair[]").element.kind == "composite"
    price = describe(conn, "kinds.price")
    assert (price.base.name, price.base.base) == ("amount", resolve(1700, AMOUNT))
    assert describe(conn, "kinds.price[]").element == price
    assert describe(conn, "kinds.amounts").base.element == resolve(1700, AMOUNT)


def test_an_array_parted_by_another_letter_has_no_element(conn):
    """box[] is parted by semicolons, so nothing here takes it apart."""
    oid = conn.execute("SELECT 'box[]'::regtype::oid::int8").fetchone()[0]
    assert (resolve(oid).kind, resolve(oid).element) == ("array", None)


def test_built_in_and_unknown_numbers(conn):
    """Built-in types need no catalog; a number that nobody has is left out, and resolves to unknown."""
    assert describe_types(conn, [23, 1700]) == {}
    assert describe_types(conn, [4_000_000_000]) == {}
    assert resolve(4_000_000_000).kind == "unknown"


@pytest.mark.both_versions
def test_every_built_in_type_is_known(conn):
    """The table has each built-in type of the server, with its name and its element."""
    rows = conn.execute(
        "SELECT t.oid::int8, t.typname, e.typname FROM pg_type t LEFT JOIN pg_type e ON e.typarray = t.oid"
        " WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.oid < 10000"
        " AND t.typtype IN ('b', 'r', 'm') AND (e.oid IS NULL OR e.typtype IN ('b', 'r', 'm'))"
    ).fetchall()
    assert len(rows) > 150
    for oid, name, element in rows:
        known = resolve(oid)
        assert known.name == name
        assert (known.element.name if known.element else None) == (element if name != "_box" else None)


def test_the_generated_table_is_up_to_date(pg18):
    """The fenced region of pgtypes.py is what its generator writes today."""
    import psycopg

    spec = importlib.util.spec_from_file_location("update_types", ROOT / "tools" / "update_types.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    with psycopg.connect(pg18.url) as connection:
        lines = tool.render(connection.execute(tool.QUERY).fetchall())
    source = tool.TARGET.read_text(encoding="utf-8")
    assert tool.replaced(source, lines) == source


@pytest.mark.parametrize(
    ("table", "identity", "naming"),
    [
        ("(a int, b int, c int, PRIMARY KEY (c, a) INCLUDE (b))", "d", ("c", "a")),
        ("(a int NOT NULL, b int NOT NULL UNIQUE, c int, UNIQUE (a, b))", "d", ("b",)),
        ("(a int NOT NULL, b int NOT NULL, c int, UNIQUE (b, a))", "d", ("b", "a")),
        ("(a int UNIQUE, b int, c int)", "d", ()),
        ("(a int UNIQUE, b int, c int)", "f", ("a", "b", "c")),
        ("(a int NOT NULL, b int, c int, EXCLUDE USING btree (a WITH =))", "n", ()),
    ],
)
def test_what_names_a_row(conn, table, identity, naming):
    """The key in its own order; else the shortest whole unique index without NULLs; else all of FULL."""
    conn.execute(f"CREATE TABLE kinds.t {table}")
    conn.execute("CREATE UNIQUE INDEX ON kinds.t (c) WHERE c > 0")
    conn.execute("CREATE UNIQUE INDEX ON kinds.t ((c + 1))")
    relid = conn.execute("SELECT 'kinds.t'::regclass::oid::int8").fetchone()[0]
    columns = tuple(Column(name, PgType(23, "int4"), in_identity=False) for name in "abc")
    version = completed(TableVersion(0, relid, "kinds", "t", identity, columns), conn)
    assert version.naming == naming
    assert [column.number for column in version.columns] == [1, 2, 3]


def test_numbers_of_columns_survive_renames(conn):
    """What a column was called before is known by its number, and what was dropped too."""
    conn.execute("CREATE TABLE kinds.t (a int, b int, c int)")
    relid = conn.execute("SELECT 'kinds.t'::regclass::oid::int8").fetchone()[0]
    conn.execute("ALTER TABLE kinds.t RENAME a TO x")
    conn.execute("ALTER TABLE kinds.t DROP b")
    conn.execute("ALTER TABLE kinds.t ADD b int")
    columns = tuple(Column(name, PgType(23, "int4"), in_identity=False) for name in ("x", "c", "b"))
    version = completed(TableVersion(0, relid, "kinds", "t", "d", columns), conn)
    assert [column.number for column in version.columns] == [1, 3, 4]
    known = replace(version, former=((1, "a"), (2, "b"), (3, "c"), (5, "gone")))
    assert [known.former_names(column) for column in known.columns] == [{"a"}, set(), set()]
    assert known.dropped_names == {"gone"}
