"""A database that a listener can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.source.listening import prepare

if TYPE_CHECKING:
    from tests.fix_pg import Database


@pytest.fixture
def prepared(database: Database) -> Database:
    """A table, a publication and a slot."""
    prepare(database)
    return database
