"""The documented table of types is what the code does."""

from __future__ import annotations

from pathlib import Path

from tests.schema.type_cases import PREPARE
from tests.schema.typed_rows import pinned
from tests.schema.types_page import render

PAGE = Path(__file__).resolve().parents[2] / "docs" / "types.md"


def test_the_committed_page_is_up_to_date(database):
    """docs/types.md is what the cases give today."""
    database.run(*PREPARE)
    with pinned(database.url) as conn:
        assert PAGE.read_text(encoding="utf-8") == render(conn)
