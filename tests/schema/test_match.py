"""The table matcher: forms of patterns, precedence, odd names, and help for patterns that match nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import ConfigError
from pgsluice.schema.match import TableMatcher, TablePattern, is_system_schema

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: "\x00" not in name)
SMALL_NAMES = st.sampled_from(["a", "b", "c"])
SMALL_PATTERNS = st.builds(TablePattern, st.none() | SMALL_NAMES, st.none() | SMALL_NAMES)


@pytest.mark.parametrize(
    ("pattern", "schema", "table"),
    [
        ("users", "public", "users"),
        ("shop.users", "shop", "users"),
        ("shop.*", "shop", "anything"),
        ("*.users", "shop", "users"),
        ("*.*", "shop", "users"),
        ("*", "public", "users"),
        (" shop.users ", "shop", "users"),
        ("Shop.USERS", "shop", "users"),
        ('"My.Schema"."T"', "My.Schema", "T"),
        ('shop."a ""b"""', "shop", 'a "b"'),
        ('shop."*"', "shop", "*"),
        ("straße.größe", "straße", "größe"),
    ],
)
def test_each_form_matches(pattern: str, schema: str, table: str) -> None:
    """Every form of a pattern finds its table."""
    assert TableMatcher.parse([pattern]).matches(schema, table)


@pytest.mark.parametrize(
    ("pattern", "schema", "table"),
    [
        ("users", "shop", "users"),
        ("shop.*", "public", "users"),
        ("*.users", "shop", "orders"),
        ("*", "shop", "users"),
        ("Users", "public", "Users"),
        ('"Users"', "public", "users"),
        ('shop."*"', "shop", "users"),
    ],
)
def test_each_form_leaves_out_the_rest(pattern: str, schema: str, table: str) -> None:
    """A pattern does not reach beyond what it says."""
    assert not TableMatcher.parse([pattern]).matches(schema, table)


@pytest.mark.parametrize(
    "pattern",
    ["", " ", ".", "a.", ".a", "a.b.c", "a b", "a*", "a.b*", '"a', '""', 'a"b', 'a."b"c', "a..b", "**"],
)
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    """What is not a pattern is an error that shows it, never a pattern that silently matches nothing."""
    with pytest.raises(ConfigError) as caught:
        TableMatcher.parse([pattern])
    assert repr(pattern) in caught.value.message


@pytest.mark.parametrize("schema", ["pgsluice", "pg_catalog", "information_schema", "pg_toast", "pg_temp_3"])
def test_system_schemas_never_match(schema: str) -> None:
    """Our own schema and PostgreSQL's are out of reach of every pattern."""
    matcher = TableMatcher.parse(["*.*", f"{schema}.t"], schema_only=[f"{schema}.*"])
    assert matcher.kind(schema, "t") is None


def test_precedence() -> None:
    """Exclude beats an exact include, which beats schema-only, which beats a wildcard."""
    matcher = TableMatcher.parse(
        ["*.*", "shop.users", "shop.secret"], exclude=["*.secret"], schema_only=["shop.*"]
    )
    assert matcher.kind("shop", "secret") is None
    assert matcher.kind("shop", "users") == "data"
    assert matcher.kind("shop", "orders") == "schema_only"
    assert matcher.kind("public", "orders") == "data"
    assert not matcher.matches("shop", "orders")


@given(NAMES, NAMES)
def test_written_names_read_back(schema: str, table: str) -> None:
    """Any names at all survive being written as a pattern and read again."""
    pattern = TablePattern(schema, table)
    assert TablePattern.parse(str(pattern)) == pattern


@given(st.text(max_size=20) | st.text(alphabet='ab.*" ', max_size=12))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """Parsing ends in a pattern that reads back the same, or in our own error."""
    try:
        pattern = TablePattern.parse(text)
    except ConfigError:
        return
    assert TablePattern.parse(str(pattern)) == pattern


@given(
    st.lists(SMALL_PATTERNS, max_size=4),
    st.lists(SMALL_PATTERNS, max_size=2),
    st.lists(SMALL_PATTERNS, max_size=2),
    SMALL_NAMES,
    SMALL_NAMES,
)
def test_precedence_equals_the_rule(
    include: list[TablePattern],
    exclude: list[TablePattern],
    schema_only: list[TablePattern],
    schema: str,
    table: str,
) -> None:
    """For any patterns the answer is the first rule that applies, spelt out by text."""
    forms = {f"{schema}.{table}", f"{schema}.*", f"*.{table}", "*.*"}

    def any_form(patterns: list[TablePattern]) -> bool:
        return bool(forms & {str(pattern) for pattern in patterns})

    if any_form(exclude):
        expected = None
    elif f"{schema}.{table}" in {str(pattern) for pattern in include}:
        expected = "data"
    elif any_form(schema_only):
        expected = "schema_only"
    else:
        expected = "data" if any_form(include) else None
    matcher = TableMatcher.parse(map(str, include), map(str, exclude), map(str, schema_only))
    assert matcher.kind(schema, table) == expected


def test_unmatched_names_the_nearest_table() -> None:
    """A pattern that matches nothing is a warning with the nearest name, also for excludes and stars."""
    tables = [("public", "users"), ("public", "Orders"), ("shop", "items"), ("pgsluice", "schema_log")]
    matcher = TableMatcher.parse(
        ["usrs", "orders", "shop.items", "shopp.*", "pgsluice.schema_log"], exclude=["*.item"]
    )
    assert matcher.unmatched(tables) == [
        "the pattern public.usrs matches no table; the nearest is public.users",
        'the pattern public.orders matches no table; the nearest is public."Orders"',
        "the pattern shopp.* matches no table; the nearest is shop.*",
        "the pattern pgsluice.schema_log matches no table: schema pgsluice is never replicated",
        "the pattern *.item matches no table; the nearest is *.items",
    ]


def test_unmatched_without_tables() -> None:
    """In an empty database every pattern is warned about, and nothing is invented."""
    assert TableMatcher.parse(["a"]).unmatched([]) == [
        "the pattern public.a matches no table; there are no tables"
    ]


@given(NAMES)
def test_system_schemas(name: str) -> None:
    """Exactly pg_*, information_schema and our own are system schemas."""
    expected = name in {"pgsluice", "information_schema"} or name[:3] == "pg_"
    assert is_system_schema(name) == expected
