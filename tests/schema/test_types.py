"""Typed columns: every case, both engines, against a real server."""

from __future__ import annotations

import pytest
from psycopg import sql

from pgsluice.schema.typed import SpecialValues, typed_arrow, typed_arrow_schema, typed_schema
from tests.schema.type_cases import CASES, PREPARE
from tests.schema.typed_rows import (
    as_input,
    by_columns,
    by_spark,
    declare,
    frame_of,
    pinned,
    same,
    texts,
    version_of,
)

pytestmark = pytest.mark.spark

DEFAULT = SpecialValues()


@pytest.fixture
def cases(database):
    """A connection, the table version with one column per type, and the texts of each column."""
    database.run(*PREPARE)
    with pinned(database.url) as conn:
        version = version_of(declare(conn, [case.type for case in CASES]), [case.type for case in CASES])
        yield conn, version, [texts(conn, case.type, case.values) for case in CASES]


@pytest.mark.both_versions
def test_every_case_is_typed_exactly_or_marked(spark, cases):
    """
    Both engines make the same columns, types and marks of all cases, and these are right.

    What fits goes back to the server and gives the same text; what doesn't is NULL and keeps its text.
    """
    conn, version, columns = cases
    rows = by_columns(columns)
    typed = by_spark(spark, rows, version, DEFAULT)
    same(typed, typed_arrow(rows, version, DEFAULT))
    marks = [dict(row or ()) for row in typed["_untyped"].to_pylist()]
    for case, column in zip(CASES, columns, strict=True):
        values = typed[case.type].to_pylist()
        for n, text in enumerate(column):
            if n < len(case.fit):
                assert back(conn, case.type, values[n]) == text, (case.type, text)
                assert case.type not in marks[n], (case.type, text)
            else:
                assert (values[n], marks[n][case.type]) == (None, text)


def back(conn, declared: str, value) -> str | None:
    """The server's text of a typed value."""
    if isinstance(value, list):
        query = sql.SQL("SELECT format('%%s', %s::text[]::{})").format(sql.SQL(declared))
        return conn.execute(query, (as_input(value),)).fetchone()[0]
    return texts(conn, declared, [as_input(value)])[0]


@pytest.mark.parametrize("choice", ["null", "clamp", "string", "stop"])
def test_the_declared_schemas_are_the_ones_that_come_out(spark, cases, choice):
    """Spark's schema, its Arrow twin and the schemas of the rows are one and the same."""
    from pyspark.sql.pandas.types import to_arrow_schema

    _, version, _ = cases
    choices = (
        SpecialValues(choice, choice, choice, choice)
        if choice != "clamp"
        else SpecialValues("clamp", "clamp")
    )
    declared = typed_schema(version, choices)
    rows = by_columns([[None]] * len(CASES))
    assert to_arrow_schema(declared, timezone="UTC") == typed_arrow_schema(version, choices)
    assert typed_arrow(rows, version, choices).schema == typed_arrow_schema(version, choices)
    assert frame_of(spark, rows, version, choices).dtypes == [
        (f.name, f.dataType.simpleString()) for f in declared
    ]
