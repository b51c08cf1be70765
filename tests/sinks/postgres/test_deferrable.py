"""Deferrable keys of the target, which the server does not check for a session of the replica role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.errors import TargetError
from pgsluice.testing.batches import UNCHANGED, Changes, table
from tests.pipeline.test_run import source_rows
from tests.sinks.postgres.test_merge import ITEMS, MANY, Writer, writer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

__all__ = ["writer"]  # the fixture

SPANS = table("public.spans", {"id": "int8", "span": "text"}, key=["id"], version=2)
KEYLESS = table("public.items", {"id": "int8", "name": "text", "body": "text"}, identity="f")


def insert(writer: Writer, *rows: tuple[str, str]) -> None:
    """Rows of the table of items, as one batch."""
    changes = Changes()
    for number, name in rows:
        changes.insert(ITEMS, number, name, "body")
    writer.apply(changes)


def test_the_server_does_not_check(database: Database) -> None:
    """What makes all of this needed: two rows of one key are taken."""
    with database.connect() as conn:
        conn.execute("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)")
        conn.execute("SET session_replication_role = replica")
        conn.execute("INSERT INTO t VALUES (1), (1)")
        assert conn.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


@pytest.mark.both_versions
@pytest.mark.parametrize("count", [3, MANY])
def test_a_key_is_never_doubled(writer: Writer, count: int) -> None:
    """A row of others under the same key, or another unique value, stops the batch: nothing of it stays."""
    writer.database.run(
        "CREATE TABLE items (id int8 PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, name text UNIQUE DEFERRABLE, "
        "body text)",
        "INSERT INTO items VALUES (1, 'theirs')",
    )
    for rows, rule in (([("1", "a")], "items_pkey"), ([("2", "theirs")], "items_name_key")):
        many = [(str(number), f"n {number}") for number in range(10, 10 + count)]
        with pytest.raises(TargetError, match=rf"public.items has a row already .* by {rule}"):
            insert(writer, *many, *rows)
        assert writer.database.rows("SELECT id, name FROM items") == [(1, "theirs")]
        writer._batches -= 1


def test_values_still_change_places(writer: Writer) -> None:
    """Swaps, also of keys and with large values that are not sent again, are no doubling."""
    writer.database.run(
        "CREATE TABLE items (id int8 PRIMARY KEY DEFERRABLE, name text UNIQUE DEFERRABLE, body text)"
    )
    insert(writer, *((str(number), f"name {number}") for number in range(MANY)))
    swapped = Changes()
    for number in range(MANY):
        swapped.update(ITEMS, str(number), f"name {(number + 1) % MANY}", UNCHANGED)
    writer.apply(swapped)
    found = writer.database.rows("SELECT id, name, body FROM items ORDER BY id")
    assert found == [(n, f"name {(n + 1) % MANY}", "body") for n in range(MANY)]
    print(f"compared {len(found)} rows")


def test_rows_without_an_identity(writer: Writer) -> None:
    """A source whose key is deferrable sends whole rows: all of the target's are then looked at."""
    writer.database.run(
        "CREATE TABLE items (id int8 PRIMARY KEY DEFERRABLE, name text, body text)",
        "INSERT INTO items VALUES (1, 'theirs')",
    )
    changes = Changes()
    changes.insert(KEYLESS, "1", "ours", None)
    with pytest.raises(TargetError, match="items_pkey"):
        writer.apply(changes)
    assert writer.database.rows("SELECT id, name FROM items") == [(1, "theirs")]


def test_exclusion(writer: Writer) -> None:
    """Rows that exclude each other are found, and those that a condition leaves out are not."""
    writer.database.run(
        "CREATE TABLE spans (id int8 PRIMARY KEY, span int4range, "
        "CONSTRAINT apart EXCLUDE USING gist (span WITH &&) WHERE (id > 0) DEFERRABLE)",
        "INSERT INTO spans VALUES (1, '[1,5)')",
    )
    first = Changes()
    first.insert(SPANS, "2", "[5,9)")
    first.insert(SPANS, "-1", "[1,9)")
    writer.apply(first)
    then = Changes()
    then.insert(SPANS, "3", "[8,10)")
    with pytest.raises(TargetError, match="by apart"):
        writer.apply(then)
    assert writer.database.rows("SELECT count(*) FROM spans") == [(3,)]


def test_nothing_on_conflict_is_refused(database: Database, tmp_path: Path) -> None:
    """PostgreSQL has no ON CONFLICT for such keys: the batch stops, and no row is doubled."""
    database.run("CREATE TABLE items (id int8 PRIMARY KEY DEFERRABLE, name text, body text)")
    database.run("INSERT INTO items VALUES (1, 'theirs')")
    writer = Writer(database, tmp_path, on_conflict="nothing")
    with pytest.raises(TargetError, match="ON CONFLICT"):
        insert(writer, ("1", "ours"))
    writer.close()
    assert database.rows("SELECT id, name FROM items") == [(1, "theirs")]


def test_a_whole_run(database: Database, target_database: Database, tmp_path: Path) -> None:
    """A source's deferrable key comes to the target; keys change places, and none is doubled."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 500) g",
    )

    def run() -> None:
        sink = PostgresSink(target_database.url)
        source = PostgresSource(database.url, init=True)
        assert Pipeline(source, sink, state_dir=tmp_path / "state").run(once=True)

    run()
    database.run("UPDATE t SET id = 501 - id", "DELETE FROM t WHERE id < 10")
    run()
    wanted = source_rows(database, "t")
    assert source_rows(target_database, "t") == wanted
    print(f"compared {len(wanted)} rows")
    target_database.run("INSERT INTO t VALUES (900, 'theirs')")
    database.run("INSERT INTO t VALUES (900, 'ours')")
    with pytest.raises(TargetError, match="t_pkey"):
        run()
    assert target_database.rows("SELECT v FROM t WHERE id = 900") == [("theirs",)]
