"""A database with a bit of everything: keyed, keyless, partitioned and unlogged tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.source.catalog import SHOP

if TYPE_CHECKING:
    from tests.fix_pg import Database


@pytest.fixture
def shop(database: Database) -> Database:
    """The shop, on ``pg``."""
    database.run(*SHOP)
    return database
