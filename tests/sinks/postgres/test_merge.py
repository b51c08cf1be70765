"""Folds applied to a real table: the rows that the source has, whatever the table's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis import strategies as st

from pgsluice.errors import TargetError, TargetSchemaError
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.postgres import PostgresConfig
from pgsluice.sinks.postgres.sink import PostgresSink
from pgsluice.testing.batches import UNCHANGED, Changes, table
from tests.sinks.histories import TABLES, histories

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

MANY = 1200  # rows: more than are sent as parameters
ITEMS = table("public.items", {"id": "int8", "name": "text", "body": "text"}, key=["id"])


class Writer:
    """A sink on a database, given one batch after the other."""

    def __init__(self, database: Database, directory: Path, **options: object) -> None:
        self.database = database
        self._sink = PostgresSink(PostgresConfig.model_validate({"url": database.url, **options}))
        self._token = self._sink.open(SinkContext("test", directory))
        self._batches = 0

    def apply(self, changes: Changes) -> None:
        """Apply changes as one batch."""
        self._batches += 1
        end = f"{self._batches}"
        self._sink.apply(changes.batch(start=self._token, end=end))
        self._token = end

    def close(self) -> None:
        """Hang up."""
        self._sink.close()


@pytest.fixture
def writer(database: Database, tmp_path: Path) -> Iterator[Writer]:
    """A writer with default options."""
    made = Writer(database, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("shape", TABLES)
def test_random_histories(writer: Writer, shape: str) -> None:
    """Any history leaves the rows that the source has, for every replica identity."""
    version = TABLES[shape]
    seen = 0

    @hypothesis.settings(max_examples=40, deadline=None, database=None)
    @hypothesis.given(st.data())
    def holds(data: st.DataObject) -> None:
        nonlocal seen
        before, history = data.draw(histories(version))
        first = Changes()
        first.truncate(version)
        for row in before:
            first.insert(version, *row)
        writer.apply(first)
        writer.apply(history.changes)
        found = writer.database.rows("SELECT a::text, b, body, n::text FROM s.t")
        assert sorted(map(repr, found)) == sorted(repr(tuple(row)) for row in history.rows)
        seen += len(found)

    # The column n takes numbers only, and histories have texts in it.
    writer.database.run("CREATE SCHEMA s", _create(version.merge_key))
    holds()
    print(f"compared {seen} rows")


def _create(key: tuple[int, ...]) -> str:
    names = ["a", "b", "body", "n"]
    primary = f", PRIMARY KEY ({', '.join(names[i] for i in key)})" if key else ""
    return f"CREATE TABLE s.t (a int, b text, body text, n text{primary})"


@pytest.mark.parametrize("count", [3, MANY])
def test_swap_of_unique_values(writer: Writer, count: int) -> None:
    """Values that another unique index guards change places in one batch, by parameters and by staging."""
    writer.database.run("CREATE TABLE items (id int8 PRIMARY KEY, name text UNIQUE, body text)")
    first = Changes()
    for number in range(count):
        first.insert(ITEMS, str(number), f"name {number}", "body")
    writer.apply(first)
    swapped = Changes()
    for number in range(count):
        swapped.update(ITEMS, str(number), f"name {(number + 1) % count}", UNCHANGED)
    writer.apply(swapped)
    found = writer.database.rows("SELECT id, name, body FROM items ORDER BY id")
    assert found == [(n, f"name {(n + 1) % count}", "body") for n in range(count)]


def test_keys_of_many_rows_change_places(writer: Writer) -> None:
    """Every key moves by one, the last one over a free key, and large values stay with their rows."""
    first = Changes()
    for number in range(MANY):
        first.insert(ITEMS, str(number), f"name {number}", f"body {number}")
    writer.apply(first)
    moved = Changes()
    moved.update(ITEMS, "-1", "name 0", UNCHANGED, old=["0", None, None])
    for number in range(1, MANY):
        moved.update(ITEMS, str(number - 1), f"name {number}", UNCHANGED, old=[str(number), None, None])
    moved.update(ITEMS, str(MANY - 1), "name 0", UNCHANGED, old=["-1", None, None])
    writer.apply(moved)
    found = writer.database.rows("SELECT id, name, body FROM items ORDER BY id")
    assert found == [(n, f"name {(n + 1) % MANY}", f"body {(n + 1) % MANY}") for n in range(MANY)]


def test_rows_without_columns(writer: Writer) -> None:
    """All that a table without columns has is a number of rows."""
    nothing = table("public.nothing", {}, identity="f")
    first = Changes()
    for _ in range(5):
        first.insert(nothing)
    writer.apply(first)
    then = Changes()
    then.insert(nothing)
    for _ in range(3):
        then.delete(nothing)
    then.commit()
    then.insert(nothing)
    writer.apply(then)
    assert writer.database.rows("SELECT count(*) FROM nothing") == [(4,)]


@pytest.mark.parametrize("pg", ["pg15"], indirect=True)
def test_keys_of_an_extension_s_type(writer: Writer) -> None:
    """The search path is empty, so the equality of such a type has to be named with its schema."""
    writer.database.run(
        "CREATE EXTENSION citext",
        "CREATE DOMAIN word AS citext",
        "CREATE DOMAIN short_word AS word",
        "CREATE TABLE items (id citext, name short_word, body text, PRIMARY KEY (id, name))",
    )
    items = table("public.items", {"id": "text", "name": "text", "body": "text"}, key=["id", "name"])
    first = Changes()
    for name in "abc":
        first.insert(items, "X", name, f"large {name}")
    writer.apply(first)
    then = Changes()
    then.update(items, "X", "B", UNCHANGED, old=["X", "b", None])
    then.delete(items, "X", "c", None)
    writer.apply(then)
    assert sorted(writer.database.rows("SELECT name::text, body FROM items")) == [
        ("B", "large b"),
        ("a", "large a"),
    ]


def test_triggers_and_foreign_keys_stand_aside(writer: Writer) -> None:
    """What they did on the source is in the stream; here they would do it twice, or refuse an order."""
    writer.database.run(
        "CREATE TABLE orders (id int8 PRIMARY KEY)",
        "CREATE TABLE items (id int8 PRIMARY KEY, name text, body text, "
        "FOREIGN KEY (id) REFERENCES orders ON DELETE CASCADE)",
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.name := 'changed'; RETURN NEW; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION shout()",
    )
    orders = table("public.orders", {"id": "int8"}, key=["id"], version=2)
    changes = Changes()
    changes.insert(ITEMS, "1", "one", None)  # its order comes later in the batch
    changes.insert(orders, "1")
    writer.apply(changes)
    later = Changes()
    later.delete(orders, "1")
    later.insert(orders, "1")
    writer.apply(later)
    assert writer.database.rows("SELECT id, name FROM items") == [(1, "one")]
    emptied = Changes()
    emptied.truncate(orders)
    writer.apply(emptied)
    assert writer.database.rows("SELECT count(*) FROM orders") == [(0,)]


def test_generated_and_identity_columns(writer: Writer) -> None:
    """The target makes generated columns itself; identity columns keep the source's numbers."""
    writer.database.run(
        "CREATE TABLE items (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, body text, "
        "size int GENERATED ALWAYS AS (length(name)) STORED)"
    )
    changes = Changes()
    changes.insert(ITEMS, "7", "seven", "x")
    changes.commit()
    writer.apply(changes)
    later = Changes()
    later.update(ITEMS, "7", "eight", UNCHANGED)
    writer.apply(later)
    assert writer.database.rows("SELECT id, name, body, size FROM items") == [(7, "eight", "x", 5)]


@pytest.mark.parametrize(
    ("on_conflict", "held"), [("update", [(1, "new"), (2, "two")]), ("nothing", [(1, "old"), (2, "two")])]
)
def test_rows_of_others(
    database: Database, tmp_path: Path, on_conflict: str, held: list[tuple[int, str]]
) -> None:
    """A row that is there already is replaced or left alone, as asked."""
    writer = Writer(database, tmp_path, on_conflict=on_conflict)
    database.run("CREATE TABLE items (id int8 PRIMARY KEY, name text, body text)")
    database.run("INSERT INTO items VALUES (1, 'old')")
    changes = Changes()
    changes.insert(ITEMS, "1", "new", None)
    changes.insert(ITEMS, "2", "two", None)
    writer.apply(changes)
    writer.close()
    assert database.rows("SELECT id, name FROM items ORDER BY id") == held


def test_rows_of_others_are_an_error_by_default(writer: Writer) -> None:
    """Nothing of the batch is written, and the table and the remedy are named; values are not."""
    writer.database.run("CREATE TABLE items (id int8 PRIMARY KEY, name text, body text)")
    writer.database.run("INSERT INTO items VALUES (4711, 'old')")
    changes = Changes()
    changes.insert(ITEMS, "1", "one", None)
    changes.insert(ITEMS, "4711", "new", None)
    with pytest.raises(TargetError, match="on_conflict") as caught:
        writer.apply(changes)
    assert "public.items" in str(caught.value)
    assert "4711" not in str(caught.value)
    assert writer.database.rows("SELECT count(*) FROM items") == [(1,)]


def test_a_value_that_does_not_fit(writer: Writer) -> None:
    """Table and column are named, the value is not."""
    writer.database.run("CREATE TABLE items (id int8 PRIMARY KEY, name varchar(3), body text)")
    changes = Changes()
    changes.insert(ITEMS, "1", "secret", None)
    with pytest.raises(TargetSchemaError, match=r"column 'name' of public\.items") as caught:
        writer.apply(changes)
    assert "secret" not in str(caught.value)


def test_a_patched_value_is_never_cut_off(writer: Writer) -> None:
    """An explicit cast to varchar(3) would cut it silently; the column refuses it."""
    writer.database.run("CREATE TABLE items (id int8 PRIMARY KEY, name varchar(3), body text)")
    changes = Changes()
    changes.insert(ITEMS, "1", "abc", "body")
    writer.apply(changes)
    later = Changes()
    later.update(ITEMS, "1", "abcdef", UNCHANGED)
    with pytest.raises(TargetSchemaError):
        writer.apply(later)
    assert writer.database.rows("SELECT name FROM items") == [("abc",)]


def test_columns_that_the_source_lacks_are_refused(writer: Writer) -> None:
    """They would be lost with the next change of their row."""
    writer.database.run("CREATE TABLE items (id int8 PRIMARY KEY, name text, body text, mine text)")
    changes = Changes()
    changes.insert(ITEMS, "1", "one", None)
    with pytest.raises(TargetSchemaError, match="mine"):
        writer.apply(changes)
