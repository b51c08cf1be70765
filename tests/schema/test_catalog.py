"""Types and keys as the catalog of a real server gives them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgsluice.schema.catalog import describe_table, describe_types
from pgsluice.schema.pgtypes import resolve

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

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


def test_primary_keys(conn):
    """The key's columns come in the key's order, without those that it only includes."""
    conn.execute("CREATE TABLE kinds.t (a int, b int, c int, PRIMARY KEY (c, a) INCLUDE (b))")
    conn.execute("CREATE TABLE kinds.keyless (a int UNIQUE)")
    relids = [
        conn.execute("SELECT %s::regclass::oid::int8", (t,)).fetchone()[0]
        for t in ("kinds.t", "kinds.keyless")
    ]
    assert [describe_table(conn, relid) for relid in relids] == [("c", "a"), ()]
