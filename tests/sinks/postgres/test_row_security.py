"""A role from which policies hide rows: it writes all of a table's rows or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice.errors import TargetError
from pgsluice.testing.batches import Changes
from tests.sinks.postgres.test_merge import ITEMS, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role that may write the tables, and set what a writer sets."""
    name = f"writer_{database.name}"
    database.run(
        f"CREATE ROLE {name} LOGIN PASSWORD 'w'",
        f"GRANT SET ON PARAMETER session_replication_role TO {name}",
        f"GRANT CREATE ON DATABASE {database.name} TO {name}",
        "CREATE TABLE items (id int8 PRIMARY KEY, name text, body text)",
        "INSERT INTO items VALUES (1, 'mine', 'a'), (2, 'hidden', 'b')",
        f"GRANT ALL ON items TO {name}",
        "CREATE POLICY mine ON items USING (name <> 'hidden')",
        "ALTER TABLE items ENABLE ROW LEVEL SECURITY",
    )
    yield name
    database.run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


def test_hidden_rows_are_refused(database: Database, role: str, tmp_path: Path) -> None:
    """The table is named with the remedy, nothing is written; with the right to see all, everything is."""
    changes = Changes()
    changes.update(ITEMS, "1", "x", "x")
    changes.delete(ITEMS, "2", None, None)
    writer = Writer(database, tmp_path, url=database.url_as(role, "w"))
    with pytest.raises(TargetError, match=r"row level security of .* public.items .* BYPASSRLS"):
        writer.apply(changes)
    assert database.rows("SELECT id, name FROM items ORDER BY id") == [(1, "mine"), (2, "hidden")]
    writer.close()
    database.run(f"ALTER ROLE {role} BYPASSRLS")
    writer = Writer(database, tmp_path, url=database.url_as(role, "w"))
    writer.apply(changes)
    writer.close()
    assert database.rows("SELECT id, name FROM items") == [(1, "x")]


def test_a_policy_that_comes_later(database: Database, role: str, tmp_path: Path) -> None:
    """Rows that are hidden from one batch on stop that batch: it does not change the visible half."""
    database.run("ALTER TABLE items DISABLE ROW LEVEL SECURITY")
    writer = Writer(database, tmp_path, url=database.url_as(role, "w"))
    first = Changes()
    first.insert(ITEMS, "3", "new", "c")
    writer.apply(first)
    database.run("ALTER TABLE items ENABLE ROW LEVEL SECURITY")
    then = Changes()
    then.delete(ITEMS, "1", None, None)
    then.delete(ITEMS, "2", None, None)
    with pytest.raises(TargetError, match="row-level security"):
        writer.apply(then)
    writer.close()
    assert database.rows("SELECT count(*) FROM items") == [(3,)]
