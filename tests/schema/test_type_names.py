"""Names of types are the ones that PostgreSQL shows."""

from __future__ import annotations

import pytest

from pgsluice.schema.table import PgType
from pgsluice.schema.type_names import base_type, display_name, numeric_size

DECLARED = [
    "smallint", "integer", "bigint", "real", "double precision", "boolean", "text", "bytea", "uuid", "json",
    "numeric(12,2)", "numeric(38)", "numeric(3,-2)", "numeric(2,5)", "character(7)", "bpchar",
    "character varying", "character varying(40)", '"char"', "name", "bit(3)", "bit varying", "bit varying(9)",
    "time", "time(3)", "timetz", "timestamp", "timestamp(0)", "timestamptz", "timestamptz(6)", "date",
    "interval", "money", "interval(2)", "interval year to month", "interval day to second(3)",
    "interval hour", "interval minute to second", "int4range", "inet", "tsvector", "oid", "regclass", "xml",
    "numeric", "integer[]", "numeric(10,3)[]", "character varying(5)[]", "timestamp(1)[]",
    "kinds.mood", "kinds.mood[]", 'kinds."Odd name"', "kinds.amount",
]  # fmt: skip

COLUMNS = """
    SELECT a.attname, a.atttypid::int8, t.typname, n.nspname, a.atttypmod, t.typtype,
           e.oid::int8, e.typname, en.nspname, format_type(a.atttypid, a.atttypmod)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' LEFT JOIN pg_namespace en ON en.oid = e.typnamespace
    WHERE a.attrelid = 'kinds.t'::regclass AND a.attnum > 0 ORDER BY a.attnum
"""  # noqa: E501


def test_names_are_those_of_the_server(database):
    """For every declared type our name equals format_type()."""
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(DECLARED))
    database.run(
        "CREATE SCHEMA kinds",
        "CREATE TYPE kinds.mood AS ENUM ('sad')",
        "CREATE TYPE kinds.\"Odd name\" AS ENUM ('odd')",
        "CREATE DOMAIN kinds.amount AS numeric(12,2)",
        f"CREATE TABLE kinds.t ({columns})",
    )
    found = database.rows(COLUMNS)
    ours = {}
    theirs = {}
    for name, oid, typname, schema, typmod, kind, *element, shown in found:
        pg_type = PgType(
            oid=oid,
            name=typname,
            schema=schema,
            typmod=typmod,
            kind="array" if element[0] else {"e": "enum", "d": "domain", "r": "range"}.get(kind, "base"),
            element=PgType(*element) if element[0] else None,
        )
        ours[name], theirs[name] = display_name(pg_type), shown
    assert ours == theirs
    assert len(ours) == len(DECLARED)


@pytest.mark.parametrize(
    ("typmod", "size"),
    [
        (-1, None),
        ((12 << 16 | 2) + 4, (12, 2)),
        ((3 << 16 | (-2 & 0x7FF)) + 4, (3, -2)),
        ((1000 << 16) + 4, (1000, 0)),
    ],
)
def test_numeric_size(typmod: int, size: tuple[int, int] | None):
    """Precision and scale are read from the modifier, negative scales included."""
    assert numeric_size(PgType(1700, "numeric", typmod=typmod)) == size


def test_domain_over_domain():
    """What a domain stands for is found through any number of domains."""
    number = PgType(1700, "numeric", typmod=720902)
    inner = PgType(1, "price", "shop", kind="domain", base=number)
    assert base_type(PgType(2, "net_price", "shop", kind="domain", base=inner)) == number
