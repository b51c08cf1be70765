"""What is in the stream and what is not: our own tables, and partitions that are made later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import MemorySink, Pipeline, PostgresSource
from pgsluice.changelog.reader import LogReader
from pgsluice.sinks.memory import MemoryStore
from pgsluice.source.connect import connect
from pgsluice.source.identity import read_tables
from tests.source.reading import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


def run_once(database: Database, tmp_path: Path, store: MemoryStore, **options: Any) -> None:
    """One run into a memory store, until it has caught up."""
    source = PostgresSource(database.url, **options)
    Pipeline(source, MemorySink(store), state_dir=tmp_path / "state").run(once=True)


@pytest.mark.both_versions
def test_our_own_tables_reach_no_sink(database: Database, tmp_path: Path) -> None:
    """A publication of all tables has those of our schema too: their rows are read and go nowhere."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    store = MemoryStore()
    run_once(database, tmp_path, store, all_tables=True, init=True)
    database.run(
        "INSERT INTO t VALUES (1)",
        "UPDATE pgsluice.pipeline SET selection = selection",
        "INSERT INTO pgsluice.migration (version, name, checksum) VALUES (0, 'x', 'x')",
        "DELETE FROM pgsluice.migration WHERE version = 0",
        "INSERT INTO t VALUES (2)",
    )
    sent = database.rows(
        "SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'pgsluice' AND tablename = 'migration'"
    )
    assert sent == [(1,)]
    run_once(database, tmp_path, store, all_tables=True)
    assert {name: sorted(table.rows) for name, table in store.tables.items()} == {
        "public.t": [("1",), ("2",)]
    }
    assert {row["schema"] for row in rows_of(LogReader(tmp_path / "state" / "log"))} == {"public"}


def test_a_partition_that_is_made_later_of_a_table_without_a_key(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FULL is not inherited: its UPDATE works all the same, and the next run takes it in and says so."""
    database.run(
        "CREATE TABLE event (day int, v text) PARTITION BY LIST (day)",
        "CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1)",
    )
    store = MemoryStore()
    run_once(database, tmp_path, store, keyless="full", init=True)
    database.run(
        "CREATE TABLE event_2 PARTITION OF event FOR VALUES IN (2)",
        "INSERT INTO event VALUES (1, 'a'), (2, 'before it joined')",
        "UPDATE event SET v = v || '!'",  # would fail if it were published as it is
    )
    capsys.readouterr()
    run_once(database, tmp_path, store)
    said = capsys.readouterr()
    assert "event_2" in said.out + said.err
    with connect(database.url) as connection:
        identities = {table.name: table.identity for table in read_tables(connection)}
    assert identities["event_2"] == "f"
    database.run("INSERT INTO event VALUES (2, 'b')", "UPDATE event SET v = v || '?'")
    run_once(database, tmp_path, store)
    assert sorted(store.tables["public.event_1"].rows) == [("1", "a!?")]
    assert ("2", "b?") in store.tables["public.event_2"].rows
