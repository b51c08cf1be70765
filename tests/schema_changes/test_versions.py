"""Versions of schemas: counted once, in the order of the stream; acknowledged when all targets have them."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

from pgsluice import MemorySink, Pipeline, PostgresSink, PostgresSource
from pgsluice.changelog.position import Lsn
from pgsluice.pipeline.schema_versions import Acknowledgements
from pgsluice.schema.store import SchemaStore
from pgsluice.sinks.memory import MemoryStore
from pgsluice.sinks.postgres.config import PostgresConfig
from pgsluice.source.install import init
from pgsluice.source.schema_log import read_log, read_schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pgsluice.schema.history import PlacedEntry
    from pgsluice.sinks.base import Batch, Sink
    from tests.fix_pg import Database

BEFORE = ("CREATE SCHEMA a", "CREATE SCHEMA b", "CREATE TABLE a.t (id int PRIMARY KEY)")


def changes(database: Database) -> None:
    """Some of both schemas, two of them in one transaction, and one that is taken back."""
    database.run(
        "CREATE TABLE b.t (id int PRIMARY KEY)",
        "ALTER TABLE a.t ADD c int",
        "ALTER TABLE b.t ADD c int",
        "BEGIN; ALTER TABLE a.t ADD d int; ROLLBACK",
        "BEGIN; ALTER TABLE a.t ADD e int; ALTER TABLE a.t RENAME TO u; COMMIT",
    )


EXPECTED = [("b", 1), ("a", 1), ("b", 2), ("a", 2), ("a", 3)]


def applying(target: Database) -> PostgresSink:
    """A target that makes the changes too."""
    return PostgresSink(PostgresConfig.model_validate({"url": target.url, "schema_changes": "apply"}))


def pipeline(database: Database, sinks: Mapping[str, Sink], place: Path) -> Pipeline:
    """A pipeline into these."""
    return Pipeline(PostgresSource(database.url, init=True), sinks, state_dir=place)


def kept(place: Path) -> list[PlacedEntry]:
    """The entries of the store."""
    with closing(SchemaStore(place / "log" / "schema.db")) as store:
        return store.history.entries()


def numbers(place: Path) -> list[tuple[str, int]]:
    """The versions of the store, in the order of the stream."""
    return [version for each in kept(place) for version in each.versions.items()]


def acknowledged(database: Database) -> list[tuple]:
    """What the source was told."""
    return database.rows("SELECT pipeline, schema, version, log_id FROM pgsluice.schema_ack ORDER BY schema")


def test_counted_and_acknowledged(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Each schema has numbers of its own; both kinds of target count, and nothing is counted twice."""
    database.run(*BEFORE)
    store = MemoryStore()
    sinks = {"one": applying(target_database), "two": MemorySink(store)}
    pipeline(database, sinks, tmp_path).run(once=True)
    assert numbers(tmp_path) == []
    changes(database)
    pipeline(database, {"one": applying(target_database), "two": MemorySink(store)}, tmp_path).run(once=True)
    assert numbers(tmp_path) == EXPECTED
    ids = [each.entry.id for each in kept(tmp_path)]
    assert acknowledged(database) == [("main", "a", 3, ids[4]), ("main", "b", 2, ids[2])]
    last = kept(tmp_path)[-1]
    assert last.entry.changes[0].before is not None
    assert (last.entry.changes[0].before["name"], last.entry.statement) == (
        "t",
        "BEGIN; ALTER TABLE a.t ADD e int; ALTER TABLE a.t RENAME TO u; COMMIT",
    )


def test_a_sink_that_ignores_them(database: Database, tmp_path: Path) -> None:
    """Its loop numbers them all the same; another sink that joins later, over the same log, adds none."""
    database.run(*BEFORE)
    store, late = MemoryStore(), MemoryStore()
    pipeline(database, {"one": MemorySink(store)}, tmp_path).run(once=True)
    changes(database)
    pipeline(database, {"one": MemorySink(store)}, tmp_path).run(once=True)
    assert numbers(tmp_path) == EXPECTED
    pipeline(database, {"one": MemorySink(store), "late": MemorySink(late)}, tmp_path).run(once=True)
    assert numbers(tmp_path) == EXPECTED


def test_before_the_copy(database: Database, tmp_path: Path) -> None:
    """What was changed between init and the first copy is in the copy, and has its number first."""
    database.run(*BEFORE)
    init(database.url)
    changes(database)
    store = MemoryStore()
    pipeline(database, {"one": MemorySink(store)}, tmp_path).run(once=True)
    assert numbers(tmp_path) == EXPECTED
    database.run("CREATE INDEX ON b.t (c)")
    pipeline(database, {"one": MemorySink(store)}, tmp_path).run(once=True)
    assert numbers(tmp_path) == [*EXPECTED, ("b", 3)]


class HeldSink(MemorySink):
    """Takes nothing while it is held."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.free = threading.Event()

    def apply(self, batch: Batch) -> None:
        """Wait, then take it."""
        self.free.wait(60)
        super().apply(batch)


def test_the_slowest_decides(database: Database, tmp_path: Path) -> None:
    """A version is acknowledged when the last target has it, while the run goes on."""
    database.run(*BEFORE)
    stores = MemoryStore(), MemoryStore()
    pipeline(database, dict(zip("fs", map(MemorySink, stores), strict=True)), tmp_path).run(once=True)
    slow = HeldSink(stores[1])
    running = pipeline(database, {"f": MemorySink(stores[0]), "s": slow}, tmp_path)
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        changes(database)
        _wait(lambda: numbers(tmp_path) == EXPECTED and running.loops["f"].facts.batches >= 1)
        time.sleep(6)  # longer than between two acknowledgements
        assert acknowledged(database) == []
        slow.free.set()
        _wait(lambda: [row[2] for row in acknowledged(database)] == [3, 2])
    finally:
        slow.free.set()
        running.stop()
        thread.join()


def _wait(until: object) -> None:
    deadline = time.monotonic() + 60
    while not until():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_source_that_is_away(database: Database, tmp_path: Path) -> None:
    """It is told the next time, and nothing fails."""
    database.run(*BEFORE)
    store = MemoryStore()
    pipeline(database, {"one": MemorySink(store)}, tmp_path).run(once=True)
    changes(database)
    pipeline(database, {"one": MemorySink(store)}, tmp_path).run(once=True)
    database.run("DELETE FROM pgsluice.schema_ack")
    source = PostgresSource("postgresql://127.0.0.1:1/none")
    acks = Acknowledgements(source, "main", tmp_path / "log")
    acks.tell(Lsn(1 << 40))
    source.url = database.url
    acks.tell(Lsn(1 << 40))
    assert [row[2] for row in acknowledged(database)] == [3, 2]


def test_in_the_order_of_their_numbers(database: Database) -> None:
    """Ten and more: the last ones are the last ones, oldest first."""
    init(database.url)
    database.run("CREATE TABLE t (id int PRIMARY KEY)", *(f"ALTER TABLE t ADD c{n} int" for n in range(12)))
    last = [entry.id for entry in read_log(database.url, 4)]
    assert last == sorted(last)
    assert last[-1] == database.rows("SELECT max(id) FROM pgsluice.schema_log")[0][0]
    unread = [entry.id for entry in read_schema(database.url, "main", last[:1]).unread]
    assert unread == sorted(unread)
    assert len(unread) == 12
