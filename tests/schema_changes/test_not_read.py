"""Changes that the event triggers could not read: the run stops, and goes on when the remedy is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import PostgresSink
from pgsluice.errors import SchemaNotReadError
from pgsluice.sinks.postgres.config import PostgresConfig
from pgsluice.source.schema_log import read_log
from tests.pipeline.test_run import source_rows
from tests.schema_changes.test_ways import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

pytestmark = pytest.mark.both_versions

DESCRIBES = "pgsluice.describe_options(text[], text)"
COMPARES = "pgsluice.with_origins(jsonb, jsonb)"


class Unread:
    """A source and a target, and changes of a table that can't be read."""

    def __init__(self, source: Database, target: Database, place: Path) -> None:
        self._source = source
        self._target = target
        self._place = place
        source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    def run(self, schema_changes: str = "apply") -> None:
        """Bring changes to the target."""
        config = PostgresConfig.model_validate({"url": self._target.url, "schema_changes": schema_changes})
        run(self._source.url, PostgresSink(config), self._place)

    def add(self, column: str, *, without: str | None = None) -> None:
        """Add a column, while the triggers lack one of their functions."""
        name = (without or "").partition("(")[0].partition(".")[2]
        change = [
            f"ALTER TABLE t ADD {column} int",
            f"INSERT INTO t (id, {column}) SELECT max(id) + 1, 5 FROM t",
        ]
        if without is not None:
            away = without.replace(name, "away")
            change = [
                f"ALTER FUNCTION {without} RENAME TO away",
                change[0],
                f"ALTER FUNCTION {away} RENAME TO {name}",
                change[1],
            ]
        self._source.run(*change)

    def mend(self, column: str) -> None:
        """The run stops there; do what it says, and compare."""
        for _ in range(2):
            with pytest.raises(
                SchemaNotReadError, match=r"ALTER TABLE changed, at .*: table public\.t: "
            ) as caught:
                self.run()
            assert caught.value.code == "SLUICE-SCHEMA-NOT-READ"
            assert caught.value.fields["position"] in caught.value.message
            assert "schema_changes: ignore for one start" in str(caught.value.remedy)
        self._target.run(f"ALTER TABLE t ADD {column} int")
        self.run("ignore")
        self.require_equal()

    def require_equal(self) -> None:
        """The target has the rows of the source."""
        assert source_rows(self._target, "t") == source_rows(self._source, "t")


@pytest.fixture
def unread(database: Database, target_database: Database, tmp_path: Path) -> Unread:
    """A table that was copied."""
    found = Unread(database, target_database, tmp_path)
    found.run()
    return found


def test_the_next_change_does_not_repeat_it(unread: Unread) -> None:
    """When the remedy is done, the next change of the table is one from there."""
    unread.add("x", without=COMPARES)
    unread.mend("x")
    unread.add("y")
    unread.run()
    unread.require_equal()


def test_what_can_not_be_described(unread: Unread, database: Database) -> None:
    """Of what was never seen as it became, the next change can't be read either; the one after that can."""
    unread.add("x", without=DESCRIBES)
    unread.mend("x")
    unread.add("y")
    unread.mend("y")
    unread.add("z")
    unread.run()
    unread.require_equal()
    assert [entry.problem is None for entry in read_log(database.url, 3)] == [False, False, True]
