"""A table whose copy is broken off in its middle is gone on with, although it changes meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from pgsluice import DuckDBSink, MemorySink, PostgresSink
from pgsluice.changelog.position import Progress
from pgsluice.pipeline import copy, touched
from pgsluice.sinks.memory import MemoryStore
from pgsluice.sinks.postgres import PostgresConfig
from pgsluice.source.snapshot import ranges
from tests.fix_pg import create_database, drop_database
from tests.pipeline.test_copy import Traffic, cut_small, filled, pipeline
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from pgsluice.sinks.base import Batch
    from tests.fix_pg import Database


__all__ = ["filled"]


@pytest.fixture
def wide(database: Database) -> Database:
    """A table of many pages, with values that are stored beside them and not sent again."""
    database.run(
        "CREATE DOMAIN code AS varchar(12)",
        "CREATE TYPE size AS ENUM ('s', 'm')",
        "CREATE TABLE item (id int, size size, code code, price numeric, body text,"
        " PRIMARY KEY (code, size))",
        "ALTER TABLE item ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO item SELECT g, 's', 'c' || g, g, repeat(md5(g::text), 100)"
        " FROM generate_series(1, 1500) g",
        "CREATE VIEW more AS SELECT g FROM generate_series(1, 300, 3) g",
        "CREATE TABLE small (id int PRIMARY KEY)",
        "INSERT INTO small VALUES (1)",
    )
    return database


class Broken:
    """Lets a sink fail for good before its n-th batch."""

    def __init__(self, sink: Any, after: int) -> None:
        self._sink = sink
        self._left = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def apply(self, batch: Batch) -> None:
        """Apply, or fail."""
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("killed")
        self._sink.apply(batch)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small ranges; the first pages of those of the large table that are read."""
    cut_small(monkeypatch)
    monkeypatch.setattr(copy, "SMALL_BYTES", 1 << 30)  # on the driver, where it can be watched
    read: list[int] = []
    real = ranges.CopyRange.rows

    def rows(part: ranges.CopyRange) -> Any:
        if part.heap.name == "item":
            read.append(part.first_page)
        return real(part)

    monkeypatch.setattr(ranges.CopyRange, "rows", rows)
    pieces = ranges.CopyRange.pieces

    def directly(part: ranges.CopyRange, columns: Any, *, binary: bool) -> Any:
        if part.heap.name == "item":
            read.append(part.first_page)
        return pieces(part, columns, binary=binary)

    monkeypatch.setattr(ranges.CopyRange, "pieces", directly)
    return read


BETWEEN = (
    # Rows that move from pages that are copied into others, and the other way; keys that change and swap.
    "UPDATE item SET price = price + 1 WHERE id % 7 = 0",
    "DELETE FROM item WHERE id % 11 = 0",
    "VACUUM item",
    "UPDATE item SET price = price + 1 WHERE id BETWEEN 1400 AND 1500",  # into the room of the deleted ones
    "INSERT INTO item SELECT g, 'm', 'c' || g, 0, repeat('n', 3000) FROM more ON CONFLICT DO NOTHING",
    "UPDATE item SET code = 'moved' || id WHERE id BETWEEN 1390 AND 1399",
    "UPDATE item SET size = 'm' WHERE id = 20 AND size = 's'",
    "UPDATE item SET price = -1 WHERE code = 'moved1391'",
    "DELETE FROM item WHERE code = 'moved1392'",
)


@pytest.mark.parametrize("kind", ["memory", "duckdb", "postgres"])
def test_only_what_is_left_is_copied(
    wide: Database, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Broken off three times, with everything between that moves rows; no page is read again."""
    read = watched(monkeypatch)
    store, file = MemoryStore(), tmp_path / "copy.duckdb"
    sinks: dict[str, Any] = {
        "memory": lambda: MemorySink(store),
        "duckdb": lambda: DuckDBSink(file),
        "postgres": lambda: PostgresSink(target_database.url),
    }
    for after in (2, 3, 2):
        with pytest.raises(RuntimeError, match="killed"):
            pipeline(wide, Broken(sinks[kind](), after), tmp_path).run(once=True)
        wide.run(*BETWEEN)
    before = len(read)
    pipeline(wide, sinks[kind](), tmp_path).run(once=True)
    assert read.count(0) == 1, "the first page was copied at the first point"
    assert len(set(read)) > before > 5
    wide.run("UPDATE item SET price = 0 WHERE id % 3 = 0")
    pipeline(wide, sinks[kind](), tmp_path).run(once=True)
    rows = source_rows(wide, "item")
    if kind == "memory":
        assert sorted(store.tables["public.item"].rows, key=repr) == rows
    elif kind == "postgres":
        assert source_rows(target_database, "item") == rows
    else:
        with duckdb.connect(str(file)) as conn:
            texts = ", ".join(f"{name}::VARCHAR" for name in ("id", "size", "code", "price", "body"))
            assert sorted(conn.sql(f"SELECT {texts} FROM public.item").fetchall(), key=repr) == rows
    print(f"{len(rows)} rows compared, pages read: {read}")


@pytest.mark.parametrize(
    "what", ["VACUUM FULL item", "TRUNCATE item", "ALTER TABLE item ADD more int DEFAULT 7"]
)
def test_a_table_whose_rows_are_elsewhere_begins_again(
    wide: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Its pages are others now, or its rows have another form."""
    read = watched(monkeypatch)
    store = MemoryStore()
    with pytest.raises(RuntimeError, match="killed"):
        pipeline(wide, Broken(MemorySink(store), 3), tmp_path).run(once=True)
    wide.run(*BETWEEN, what, "INSERT INTO item (id, size, code) VALUES (9999, 's', 'last')")
    pipeline(wide, MemorySink(store), tmp_path).run(once=True)
    assert read.count(0) == 2
    assert sorted(store.tables["public.item"].rows, key=repr) == source_rows(wide, "item")


def test_a_table_with_too_many_changes_begins_again(
    wide: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their keys are held in memory."""
    read = watched(monkeypatch)
    monkeypatch.setattr(touched, "MOST_KEYS", 100)
    store = MemoryStore()
    with pytest.raises(RuntimeError, match="killed"):
        pipeline(wide, Broken(MemorySink(store), 3), tmp_path).run(once=True)
    wide.run(*BETWEEN)
    pipeline(wide, MemorySink(store), tmp_path).run(once=True)
    assert read.count(0) == 2
    assert sorted(store.tables["public.item"].rows, key=repr) == source_rows(wide, "item")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_under_traffic(filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off again and again while two writers change everything."""
    cut_small(monkeypatch)
    store = MemoryStore()
    resumed = 0
    with Traffic(filled) as traffic:
        for after in (2, 3, 2):
            try:
                pipeline(filled, Broken(MemorySink(store), after), tmp_path).run(once=True)
            except RuntimeError:
                copies = Progress.decode(store.progress["main"]).copies
                resumed += bool(copies and copies.partly)
    pipeline(filled, MemorySink(store), tmp_path).run(once=True)
    compared = 0
    for table in ("item", "line", "leaf1", "leaf2", "child"):
        rows = source_rows(filled, table)
        assert sorted(store.tables[f"public.{table}"].rows, key=repr) == rows, table
        compared += len(rows)
    print(f"{compared} rows compared, {traffic.done} transactions, gone on {resumed} times")
    assert resumed >= 2


@pytest.mark.parametrize("key", ["int", "citext"])
def test_a_unique_value_that_has_changed_rows(
    pg15: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """From a row that is copied to one that is not; also by keys whose equality is an extension's."""
    watched(monkeypatch)
    source, target = create_database(pg15), create_database(pg15)
    try:
        for each in (source, target):
            each.run("CREATE SCHEMA kinds", "CREATE EXTENSION citext SCHEMA kinds")
            each.run(
                f"CREATE TABLE item (id {'kinds.citext' if key == 'citext' else 'int'} PRIMARY KEY,"
                " u int UNIQUE, body text)"
            )
        source.run(
            "ALTER TABLE item ALTER body SET STORAGE EXTERNAL",
            "INSERT INTO item SELECT g, g, repeat(md5(g::text), 100) FROM generate_series(1, 1500) g",
        )
        config = PostgresConfig.model_validate({"url": target.url, "schema_copy": "leave"})
        with pytest.raises(RuntimeError, match="killed"):
            pipeline(source, Broken(PostgresSink(config), 3), tmp_path).run(once=True)
        assert 0 < target.rows("SELECT count(*) FROM item")[0][0] < 1500
        source.run(
            "UPDATE item SET u = -1 WHERE u = 2",
            "UPDATE item SET u = 2 WHERE u = 1499",
            "UPDATE item SET u = 1499 WHERE u = 3",
        )
        pipeline(source, PostgresSink(config), tmp_path).run(once=True)
        wanted = source_rows(source, "item")
        assert source_rows(target, "item") == wanted
        print(f"compared {len(wanted)} rows")
    finally:
        drop_database(source)
        drop_database(target)
