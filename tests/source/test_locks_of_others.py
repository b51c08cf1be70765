"""Others who hold locks and want more: we give way, so that the server never breaks off what they do."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgsluice.changelog.position import Lsn
from pgsluice.errors import SchemaBusyError
from pgsluice.source import install
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.install import init, refresh
from pgsluice.source.snapshot.point import hold_point
from pgsluice.source.snapshot.schema_dump import dump_schema
from pgsluice.source.snapshot.tables import published_tables, tables_besides

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


def test_a_copy_lets_others_change_tables(database: Database) -> None:
    """While the point of a copy is held, nobody waits for it: what it asks the catalog takes no locks."""
    init(database.url)
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM (1) TO (10)",
        "CREATE VIEW v AS SELECT id FROM t",
    )
    publication = init(database.url).publication
    with hold_point(database.url) as point, point.conn.cursor() as cursor:
        found = published_tables(point.conn, publication, {relid: Lsn(1) for relid in _relids(database)})
        assert [table.relation.name for table in found] == ["p"]
        assert tables_besides(point.conn, _relids(database)) == []
        held = cursor.execute(
            "SELECT relation::regclass::text, mode FROM pg_locks WHERE pid = pg_backend_pid()"
            " AND relation IN ('public.t'::regclass, 'public.p'::regclass, 'public.v'::regclass)"
        ).fetchall()
    assert held == []


def _relids(database: Database) -> list[int]:
    return [relid for (relid,) in database.rows("SELECT oid::int8 FROM pg_class WHERE relname IN ('t', 'p')")]


def test_what_is_dropped_while_we_look(database: Database) -> None:
    """The server found it in the catalog, and it is gone when it looks for more: tried again."""
    raising = "RAISE 'could not open relation with OID 18412' USING ERRCODE = 'internal_error'"
    with (
        pytest.raises(SchemaBusyError, match="others change it now"),
        source_errors(database.url, "list the tables"),
        connect(database.url) as conn,
    ):
        conn.execute(f"DO $$ BEGIN {raising}; END $$")


@pytest.mark.parametrize("change", ["ALTER TABLE a DROP CONSTRAINT a_pkey", "DROP TABLE a"])
def test_what_is_changed_while_it_is_published(
    database: Database, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A table that we saw with a key is to be published, and has none or is gone: tried again."""
    init(database.url)
    database.run("CREATE TABLE a (id int PRIMARY KEY)")

    def meanwhile(*given: Any) -> list[Any]:
        database.run(change)
        return set_full(*given)

    set_full = install._set_full
    with monkeypatch.context() as patched:
        patched.setattr(install, "_set_full", meanwhile)
        with pytest.raises(SchemaBusyError, match="others change tables"):
            refresh(database.url)
    refresh(database.url)
