"""Typed streams without Spark around them: which columns they have, and where they stop."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pgsluice.errors import ConfigError, TableChangedError
from tests.source.streaming import Captured, capturing, drain, read, stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

ORDERS = """
    CREATE TABLE orders
        (id int8 PRIMARY KEY, total numeric(10, 2), day date, gen int GENERATED ALWAYS AS (1) STORED)"""
OTHER = "CREATE TABLE other (id int PRIMARY KEY)"


@pytest.fixture
def captured(database: Database, tmp_path: Path) -> Iterator[Captured]:
    """A typed table beside another one."""
    with capturing(database, tmp_path / "state", ORDERS, OTHER) as found:
        found.options["table"] = "orders"
        yield found


def ids(batches: list[pa.Table]) -> list[int]:
    """The keys of all rows."""
    return [i for batch in batches if batch.num_columns for i in batch["id"].to_pylist()]


def test_columns_come_from_the_catalog_before_the_first_row(captured: Captured):
    """A new log knows no table yet: the columns are those that the publication will send, typed."""
    reader = captured.stream()
    start = reader.initialOffset()
    captured.database.run(
        "INSERT INTO other VALUES (1)",
        "INSERT INTO orders VALUES (1, 9.99, '2024-02-29')",
        "INSERT INTO orders VALUES (2, 'NaN', 'infinity')",
        "DELETE FROM orders WHERE id = 1",
    )
    batches, _ = drain(reader, start)
    reader.stop()
    rows = pa.concat_tables([each for each in batches if each.num_rows]).to_pylist()
    assert [(r["_op"], r["id"], r["total"], str(r["day"])) for r in rows] == [
        ("I", 1, Decimal("9.99"), "2024-02-29"),
        ("I", 2, None, "None"),
        ("D", 1, None, "None"),
    ]
    assert rows[1]["_untyped"] == [("total", "NaN"), ("day", "infinity")]
    assert "gen" not in rows[0]


def test_special_values_follow_the_options(captured: Captured):
    """A choice that makes a column a string changes the stream's schema."""
    reader = captured.stream(specialDates="string")
    start = reader.initialOffset()
    captured.database.run("INSERT INTO orders VALUES (1, 1, '0044-03-15 BC')")
    batches, _ = drain(reader, start)
    reader.stop()
    assert batches[0]["day"].to_pylist() == ["0044-03-15 BC"]


def test_a_changed_table_stops_the_stream_and_a_new_one_goes_on(captured: Captured):
    """A batch ends before the first row with other columns; the next stream has them; no row is lost."""
    reader = captured.stream()
    at = reader.initialOffset()
    captured.database.run(
        "INSERT INTO orders VALUES (1, 1, now())",
        "INSERT INTO other VALUES (1)",
        "ALTER TABLE orders ADD note text",
        "INSERT INTO orders (id, note) VALUES (2, 'two')",
        "ALTER TABLE orders DROP note",
        "INSERT INTO orders VALUES (3, 3, now())",
    )
    found = []
    for columns, said in [
        (None, r"orders changed at .* id, total, day, note"),
        ("note", r"changed at .* id, total, day\."),
    ]:
        reader.prepareForTriggerAvailableNow()
        limit = reader.getDefaultReadLimit()
        end = reader.latestOffset(at, limit)
        batch = read(reader, at, end)
        assert ("note" in batch.column_names) == (columns == "note")
        found.append(batch)
        with pytest.raises(TableChangedError, match=said):
            reader.latestOffset(end, limit)
        reader.stop()
        at = end
        reader = captured.stream()
    rest, _ = drain(reader, at)
    reader.stop()
    assert ids([*found, *rest]) == [1, 2, 3]
    assert ids(rest) == [3]


def test_a_backlog_of_several_versions_is_read_from_its_first(captured: Captured):
    """A query that comes late starts with the columns of its first row, not with the newest."""
    probe = captured.stream(consumer="probe")
    captured.database.run(
        "INSERT INTO orders VALUES (1, 1, now())",
        "ALTER TABLE orders ADD note text",
        "INSERT INTO orders (id, note) VALUES (2, 'two')",
    )
    with pytest.raises(TableChangedError):
        drain(probe)
    probe.stop()
    late = captured.stream(consumer="late")
    start = late.initialOffset()
    end = late.latestOffset(start, late.getDefaultReadLimit())
    rows = read(late, start, end)
    late.stop()
    assert ids([rows]) == [1]
    assert "note" not in rows.column_names


def test_a_change_between_the_rows_of_one_transaction(captured: Captured):
    """Typed columns can't show both forms in one batch: the error says where to go on."""
    reader = captured.stream()
    at = reader.initialOffset()
    with captured.database.connect() as conn, conn.transaction():
        conn.execute("INSERT INTO orders VALUES (1, 1, now())")
        conn.execute("ALTER TABLE orders ADD note text")
        conn.execute("INSERT INTO orders (id, note) VALUES (2, 'two')")
    captured.database.run("INSERT INTO orders (id, note) VALUES (3, 'three')")
    with pytest.raises(TableChangedError, match="from before and after") as raised:
        drain(reader, at)
    reader.stop()
    after = str(raised.value).split('"startingPosition", "')[1].split('"')[0]
    again = captured.stream(startingPosition=after, consumer="again")
    assert ids(drain(again)[0]) == [3]
    again.stop()


def test_an_unknown_table_is_refused(captured: Captured):
    """With a URL it must be published; with a log alone the log must have named it."""
    with pytest.raises(ConfigError, match=r"there is no table public\.nothing"):
        captured.stream(table="nothing")
    captured.stream(table="orders").initialOffset()
    with pytest.raises(ConfigError, match=r"has not named the table public\.orders"):
        stream({"log": str(captured.log), "table": "orders", "consumer": "x"})
