"""What the tests of modifiers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fix_pg import create_database, drop_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fix_pg import Database


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Database, Database]]:
    """A source and a target."""
    source, target = (create_database(request.getfixturevalue("pg18")) for _ in range(2))
    yield source, target
    drop_database(source)
    drop_database(target)
