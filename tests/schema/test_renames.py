"""Other names in a target: for versions of tables, and in the statements that make its schema."""

from __future__ import annotations

import pytest

from pgsluice.errors import ConfigError
from pgsluice.schema.renames import Renames
from pgsluice.schema.statements import SchemaStatement

RENAMES = Renames.parse({"public": "shop"}, {"orders": "sales.orders", '"Odd"."T""x"': "public.t"})


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        (("public", "orders"), ("sales", "orders")),
        (("public", "item"), ("shop", "item")),
        (("Odd", 'T"x'), ("public", "t")),
        (("Odd", "other"), ("Odd", "other")),
    ],
)
def test_the_table_wins_over_its_schema(name: tuple[str, str], renamed: tuple[str, str]) -> None:
    """What is not named keeps its name."""
    assert RENAMES.table(name) == renamed


def test_statements_get_the_names_of_the_target() -> None:
    """Tables, their schemas, what refers to them, and names inside of a regclass."""
    given = SchemaStatement(
        "TABLE",
        "public.orders",
        'CREATE TABLE "public"."orders" ("id" integer DEFAULT "nextval"(\'"public"."s"\'::"regclass"), '
        'FOREIGN KEY ("i") REFERENCES "public"."item"("id"), "o" "Odd"."T""x", "p" "Odd"."other")',
    )
    sales, shop, public, made = sorted(
        RENAMES.statements([given]),
        key=lambda each: (each.kind != "SCHEMA", each.name != "sales", each.name == "public"),
    )
    assert [each.sql for each in (sales, shop, public)] == [
        f'CREATE SCHEMA IF NOT EXISTS "{name}"' for name in ("sales", "shop", "public")
    ]
    assert made.sql == (
        'CREATE TABLE "sales"."orders" ("id" integer DEFAULT "nextval"(\'"shop"."s"\'::"regclass"), '
        'FOREIGN KEY ("i") REFERENCES "shop"."item"("id"), "o" "public"."t", "p" "Odd"."other")'
    )


def test_a_schema_of_its_own() -> None:
    """``CREATE SCHEMA``, grants and comments name it alone."""
    (_, made) = Renames.parse({"app": "shop"}, {}).statements(
        [SchemaStatement("SCHEMA", "app", 'CREATE SCHEMA "app"')]
    )
    assert made.sql == 'CREATE SCHEMA "shop"'


def test_two_tables_that_would_be_one() -> None:
    """They are named, with what to do."""
    with pytest.raises(ConfigError, match=r"a\.t and b\.t would both be b\.t"):
        Renames.parse({"a": "b"}, {}).require_distinct([("a", "t"), ("b", "t"), ("c", "t")])


def test_a_pattern_is_no_name() -> None:
    """One table gets one name."""
    with pytest.raises(ConfigError, match="not the name of one table"):
        Renames.parse({}, {"public.*": "sales.x"})
