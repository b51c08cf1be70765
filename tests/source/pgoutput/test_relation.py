"""Relation and Type messages for the schema store."""

from __future__ import annotations

import pytest

from pgsluice.errors import DecodeError
from pgsluice.schema.table import Column, PgType
from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput.relation import parse_relation, parse_type, table_version
from pgsluice.testing.pgoutput import encode

TABLE = m.Relation(
    relid=16384,
    schema="public",
    name="orders",
    identity="i",
    columns=(m.RelationColumn("id", 23, -1, True), m.RelationColumn("mood", 70000, 8, False)),
)


def test_a_relation_becomes_a_version_of_a_table() -> None:
    """Names, identity and typmods come from the message, types are built in or the user's own."""
    version = table_version(
        parse_relation(encode(TABLE)), 3, {70000: PgType(70000, "mood", "public", kind="enum")}
    )
    assert (version.id, version.relid, version.qualified, version.identity) == (
        3,
        16384,
        "public.orders",
        "i",
    )
    assert version.columns == (
        Column("id", PgType(23, "int4"), True),
        Column("mood", PgType(70000, "mood", "public", typmod=8, kind="enum"), False),
    )
    assert version.merge_key == (0,)


def test_a_type_has_a_name() -> None:
    """A Type message gives number, schema and name of a user's type."""
    mood = m.Type(70000, "public", "mood")
    assert parse_type(encode(mood)) == mood


def test_other_messages_are_refused() -> None:
    """What isn't a Relation or a Type is a DecodeError, not a wrong table."""
    with pytest.raises(DecodeError, match="Type where a Relation"):
        parse_relation(encode(m.Type(1, "public", "t")))
    with pytest.raises(DecodeError, match="Relation where a Type"):
        parse_type(encode(TABLE))
