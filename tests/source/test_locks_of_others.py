"""Others who hold locks and want more: we give way, so that the server never breaks off what they do."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.errors import SchemaBusyError
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.install import init, refresh
from pgsluice.source.snapshot.schema_dump import dump_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fix_pg import Database


def dump(database: Database) -> None:
    """Read the schema."""
    with psycopg.connect(database.url) as conn:
        dump_schema(conn, None, without=(), owners=False, privileges=False)


@pytest.mark.parametrize("work", [dump, lambda database: refresh(database.url)], ids=["pg_dump", "publish"])
def test_we_give_way(database: Database, work: Callable[[Database], None]) -> None:
    """One session has a table and wants another, which we have while we want the first: it gets it."""
    init(database.url)
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    found: list[BaseException] = []

    def ours() -> None:
        try:
            work(database)
        except SchemaBusyError as error:
            found.append(error)

    with database.connect() as conn:
        conn.autocommit = False
        conn.execute("LOCK TABLE b IN ACCESS EXCLUSIVE MODE")
        thread = threading.Thread(target=ours)
        thread.start()
        _wait_for_a_lock(database)
        conn.execute("LOCK TABLE a IN ACCESS EXCLUSIVE MODE")  # raises if the server took it for the victim
        thread.join()
        conn.commit()
    assert [type(error) for error in found] == [SchemaBusyError]
    assert found[0].transient  # type: ignore[attr-defined]
    work(database)


def _wait_for_a_lock(database: Database) -> None:
    waiting = "SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
    deadline = time.monotonic() + 30
    while not database.rows(f"{waiting} WHERE NOT l.granted AND d.datname = current_database()"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_dropped_while_we_look(database: Database) -> None:
    """The server found it in the catalog, and it is gone when it looks for more: tried again."""
    raising = "RAISE 'could not open relation with OID 18412' USING ERRCODE = 'internal_error'"
    with (
        pytest.raises(SchemaBusyError, match="others change it now"),
        source_errors(database.url, "list the tables"),
        connect(database.url) as conn,
    ):
        conn.execute(f"DO $$ BEGIN {raising}; END $$")
