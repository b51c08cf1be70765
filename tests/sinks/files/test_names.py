"""Names of directories and files: safe everywhere, and no two tables under one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.sinks.files.names import directory_of, encoded, file_name, number_in, numbered
from pgsluice.testing.batches import table

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=63)


@pytest.mark.parametrize(
    ("schema", "name", "directory"),
    [
        ("public", "orders", "public.orders"),
        ("Sales-2", "OrderItem", "Sales-2.OrderItem"),
        ("_hidden", "_too", "%5fhidden.%5ftoo"),
        ("a.b", "c", "a%2eb.c"),
        ("day=1", "a b/c", "day%3d1.a%20b%2fc"),
        ("..", "100%", "%2e%2e.100%25"),
        ("täble", "€", "t%c3%a4ble.%e2%82%ac"),
    ],
)
def test_directories(schema: str, name: str, directory: str) -> None:
    """Usual names stay as they are, odd characters are written as bytes."""
    assert directory_of(table((schema, name), {"id": "int8"})) == directory


@given(NAMES, NAMES)
def test_any_two_names(one: str, other: str) -> None:
    """A name fits into a path, is visible to every reader, and is the name of one table only."""
    assert (encoded(one) == encoded(other)) == (one == other)
    assert re.fullmatch(r"[A-Za-z0-9%-][A-Za-z0-9%_~-]*", encoded(one))
    assert len(f"{encoded(one)}.{encoded(other)}") <= 255


def test_long_names() -> None:
    """63 letters of another script are more bytes than a file's name may have: cut, and told apart."""
    assert len(encoded("ä" * 63)) == 117
    assert encoded("ä" * 63) != encoded("ä" * 62 + "ö")


def test_files_sort_by_commit_and_place() -> None:
    """Sorted by name, files are in the order of their rows."""
    made = [file_name("shop", commit, 3, place, ".parquet") for commit in (2, 10) for place in (0, 9, 10)]
    assert made == sorted(made)
    assert made[0] == "shop-0000000002-00000-v3.parquet"
    assert file_name("shop", 2, None, 0, ".jsonl") == "shop-0000000002-00000.jsonl"


@pytest.mark.parametrize(
    ("name", "number"),
    [("0000000012.json", 12), (".0000000012.owner", 12), (numbered(7), 7), ("12.json", None), ("x", None)],
)
def test_numbers(name: str, number: int | None) -> None:
    """Only names of ours have a number."""
    assert number_in(name) == number
