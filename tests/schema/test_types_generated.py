"""Values made by hypothesis, through a real server and both engines."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pgsluice.schema.typed import SpecialValues, typed_arrow
from tests.schema.test_types import back
from tests.schema.typed_rows import by_columns, by_spark, declare, pinned, same, texts, version_of

LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
WORDS = st.text(LETTERS, max_size=12) | st.sampled_from(["NULL", "null", "", '"', "\\", "{}", ",", " "])
ROWS = 20  # of an example: each is one Spark job


def columns_of(values: st.SearchStrategy) -> st.SearchStrategy:
    """Columns of one type."""
    return st.lists(st.none() | values, min_size=1, max_size=ROWS)


def array_text(items: list[str | None]) -> str:
    """An array as SQL writes it."""
    return "{" + ",".join("NULL" if item is None else quoted(item) for item in items) + "}"


def quoted(item: str) -> str:
    """An element of an array as SQL writes it."""
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


DECIMALS = st.decimals(-(10**28) + 1, 10**28 - 1, places=10).map(lambda value: format(value, "f"))
TABLE = {
    "int8": columns_of(st.integers(-(2**63), 2**63 - 1).map(str)),
    "float4": columns_of(st.floats(width=32).map(repr)),
    "float8": columns_of(st.floats().map(repr)),
    "numeric(38,10)": columns_of(DECIMALS),
    "date": columns_of(st.dates().map(str)),
    "timestamp": columns_of(st.datetimes().map(str)),
    "timestamptz": columns_of(st.datetimes(timezones=st.just(UTC)).map(str)),
    "bytea": columns_of(st.binary(max_size=20).map(lambda value: f"\\x{value.hex()}")),
    "text": columns_of(WORDS),
    "text[]": columns_of(st.lists(st.none() | WORDS, max_size=4).map(array_text)),
    "float8[]": columns_of(st.lists(st.none() | st.floats().map(repr), max_size=4).map(array_text)),
}


@pytest.fixture
def table(database):
    """A pinned connection and the version of a table with these columns."""
    with pinned(database.url) as conn:
        yield conn, version_of(declare(conn, list(TABLE)), list(TABLE))


def check(conn, version, columns, typed) -> None:
    """Nothing is marked, and the server reads the typed values as the values that it wrote."""
    assert typed["_untyped"].null_count == len(typed)
    for declared, column in columns.items():
        values = typed[declared].to_pylist()[: len(column)]
        assert [back(conn, declared, value) for value in values] == column


def written(conn, columns) -> dict[str, list[str | None]]:
    """The columns as PostgreSQL writes them."""
    return {declared: texts(conn, declared, columns[declared]) for declared in TABLE}


QUIET = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@settings(max_examples=30, **QUIET)
@given(columns=st.fixed_dictionaries(TABLE))
def test_generated_values_come_back_from_arrow_as_they_went(table, columns):
    """Arrow's typed values are the server's, for values that nobody thought of."""
    conn, version = table
    columns = written(conn, columns)
    check(conn, version, columns, typed_arrow(by_columns(list(columns.values())), version, SpecialValues()))


@pytest.mark.spark
@settings(max_examples=4, phases=[Phase.generate], **QUIET)  # each example is a Spark job
@given(columns=st.fixed_dictionaries(TABLE))
def test_generated_values_come_back_from_spark_as_they_went(spark, table, columns):
    """Spark's typed values are the server's, and the same as Arrow's."""
    conn, version = table
    columns = written(conn, columns)
    rows = by_columns(list(columns.values()))
    typed = by_spark(spark, rows, version, SpecialValues())
    same(typed, typed_arrow(rows, version, SpecialValues()))
    check(conn, version, columns, typed)


def test_the_strategies_reach_the_limits():
    """The decimals of the test above really have up to 38 digits."""
    assert len(str(abs(Decimal(10**28 - 1)))) + 10 == 38
