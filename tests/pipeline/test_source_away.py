"""A source that does not answer when the loop of a sink asks it something: it is asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import SourceUnreachableError
from pgsluice.pipeline import feed
from pgsluice.pipeline.copy import TableCopy
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.mark.parametrize(("owner", "name"), [(TableCopy, "left_out"), (feed, "for_target")])
def test_asked_again(
    database: Database,
    target_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
) -> None:
    """At the start, for the tables that there are; and later, for types of a table that was changed."""

    def run() -> None:
        source = PostgresSource(database.url, init=True)
        assert Pipeline(source, PostgresSink(target_database.url), state_dir=tmp_path).run(once=True)

    database.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    run()
    database.run("ALTER TABLE t ADD v text", "INSERT INTO t VALUES (2, 'a')")
    answer, asked = getattr(owner, name), 0

    def away_once(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise SourceUnreachableError("closed the connection while it was being opened")
        return answer(*given)

    monkeypatch.setattr(owner, name, away_once)
    run()
    assert asked > 1
    assert source_rows(target_database, "t") == source_rows(database, "t")
