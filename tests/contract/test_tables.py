"""What sinks of tables make of changes: the rows that the source has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgsluice.testing.batches import UNCHANGED, Changes, table

pytestmark = pytest.mark.only(holds="tables")

ITEMS = table("public.items", {"id": "int8", "name": "text", "body": "text"}, key=["id"], version=1)
ORDERS = table("public.orders", {"id": "int8", "item": "int8"}, key=["id"], version=2)
LOG = table("public.log", {"line": "text", "n": "int4"}, identity="f", version=3)
MAIL = table(
    "public.mail", {"id": "int8", "email": "text"}, key=["email"], identity="i", primary_key=["id"], version=4
)


@pytest.fixture
def changes() -> Changes:
    """Two items, committed."""
    made = Changes()
    made.insert(ITEMS, "1", "one", "body of one")
    made.insert(ITEMS, "2", "two", "body of two")
    made.commit()
    return made


def applied(run, *histories: Changes, chunk_rows: int = 65_536) -> dict[str, list[tuple[str | None, ...]]]:
    """What the target holds after these batches."""
    sink, token = run.open()
    for number, changes in enumerate(histories):
        end = f"token {number}"
        sink.apply(run.batch(changes, token, end, chunk_rows=chunk_rows))
        token = end
    sink.close()
    return run.target.tables()


def test_order(run, changes: Changes):
    """The last of several changes of a row is what stays, inside a transaction and over transactions."""
    changes.update(ITEMS, "1", "uno", "x")
    changes.update(ITEMS, "1", "eins", "y")
    changes.commit()
    changes.update(ITEMS, "1", "un", "z")
    changes.delete(ITEMS, "2", None, None)
    changes.insert(ITEMS, "2", "deux", None)
    assert applied(run, changes) == {"public.items": [("1", "un", "z"), ("2", "deux", None)]}


@pytest.mark.chunks(1, 2, 3, 100)
def test_swap_of_keys(run, changes: Changes, chunk_rows: int):
    """1 and 2 swap their keys over 0, their large values unsent, wherever the chunks are cut."""
    later = Changes()
    later.update(ITEMS, "0", "one", UNCHANGED, old=["1", None, None])
    later.update(ITEMS, "1", "two", UNCHANGED, old=["2", None, None])
    later.update(ITEMS, "2", "one", UNCHANGED, old=["0", None, None])
    held = applied(run, changes, later, chunk_rows=chunk_rows)
    assert held == {"public.items": [("1", "two", "body of two"), ("2", "one", "body of one")]}


def test_key_moves_onto_a_deleted_key(run, changes: Changes):
    """A row may take the key of one that was deleted in the same batch."""
    later = Changes()
    later.delete(ITEMS, "2", None, None)
    later.update(ITEMS, "2", "one", UNCHANGED, old=["1", None, None])
    assert applied(run, changes, later) == {"public.items": [("2", "one", "body of one")]}


def test_row_that_comes_and_goes(run, changes: Changes):
    """A row that is inserted, changed, moved and deleted in one batch leaves nothing behind."""
    later = Changes()
    later.insert(ITEMS, "3", "a", "b")
    later.update(ITEMS, "3", "c", UNCHANGED)
    later.update(ITEMS, "4", "c", UNCHANGED, old=["3", None, None])
    later.delete(ITEMS, "4", None, None)
    later.delete(ITEMS, "1", None, None)
    assert applied(run, changes, later) == {"public.items": [("2", "two", "body of two")]}


@pytest.mark.chunks(1, 100)
def test_large_values_are_folded_per_column(run, changes: Changes, chunk_rows: int):
    """A large value that one UPDATE set survives the next that did not send it, over chunks and batches."""
    second, third = Changes(), Changes()
    second.update(ITEMS, "1", "first", "CCC")
    second.update(ITEMS, "1", "second", UNCHANGED)
    second.update(ITEMS, "2", "zwei", UNCHANGED)
    third.update(ITEMS, "1", "third", UNCHANGED)
    held = applied(run, changes, second, third, chunk_rows=chunk_rows)
    assert held == {"public.items": [("1", "third", "CCC"), ("2", "zwei", "body of two")]}


@pytest.mark.chunks(1, 100)
def test_truncate_between_rows(run, changes: Changes, chunk_rows: int):
    """TRUNCATE takes what came before it and nothing that comes after."""
    later = Changes()
    later.insert(ITEMS, "3", "three", None)
    later.truncate(ITEMS)
    later.insert(ITEMS, "3", "drei", None)
    later.insert(ITEMS, "1", "eins", None)
    held = applied(run, changes, later, chunk_rows=chunk_rows)
    assert held == {"public.items": [("1", "eins", None), ("3", "drei", None)]}


def test_truncate_of_several_tables(run, changes: Changes):
    """One TRUNCATE of two tables empties both, and leaves a third alone."""
    changes.insert(ORDERS, "7", "1")
    changes.insert(LOG, "kept", "1")
    later = Changes()
    later.truncate(ITEMS, ORDERS)
    later.insert(ORDERS, "8", None)
    assert applied(run, changes, later) == {"public.orders": [("8", None)], "public.log": [("kept", "1")]}


def test_transaction_larger_than_a_chunk(run):
    """A transaction of many chunks and two tables is applied whole and in order."""
    changes = Changes()
    for number in range(500):
        changes.insert(ITEMS, str(number), "new", "b" * 40)
        changes.insert(ORDERS, str(number), None)
    for number in range(0, 500, 2):
        changes.update(ITEMS, str(number), "changed", UNCHANGED)
    for number in range(0, 500, 5):
        changes.delete(ITEMS, str(number), None, None)
    held = applied(run, changes, chunk_rows=37)
    expected = {str(n): ("changed" if n % 2 == 0 else "new", "b" * 40) for n in range(500) if n % 5 != 0}
    assert {row[0]: row[1:] for row in held["public.items"]} == expected
    assert len(held["public.items"]) == len(expected)
    assert len(held["public.orders"]) == 500


@pytest.mark.chunks(1, 2, 100)
def test_copies_of_a_row_without_key(run, chunk_rows: int):
    """Equal rows of a table without key are changed one at a time, NULL being equal to NULL."""
    changes, later = Changes(), Changes()
    for _ in range(3):
        changes.insert(LOG, "same", None)
    changes.insert(LOG, "other", "1")
    later.delete(LOG, "same", None)
    later.update(LOG, "same", "5", old=["same", None])
    later.insert(LOG, "same", None)
    later.delete(LOG, "other", "1")
    held = applied(run, changes, later, chunk_rows=chunk_rows)
    assert held == {"public.log": [("same", None), ("same", None), ("same", "5")]}


def test_full_identity_fills_large_values_from_the_old_row(run):
    """Under FULL the old row has the value that the new one left out, with and without a key."""
    keyed = table("public.full", {"id": "int8", "body": "text"}, identity="f", primary_key=["id"], version=5)
    changes = Changes()
    changes.insert(keyed, "1", "large")
    changes.insert(LOG, "large", "1")
    changes.update(keyed, "2", UNCHANGED, old=["1", "large"])
    changes.update(LOG, UNCHANGED, "2", old=["large", "1"])
    assert applied(run, changes) == {"public.full": [("2", "large")], "public.log": [("large", "2")]}


def test_primary_key_changes_under_another_identity(run):
    """With an identity USING INDEX a new primary key comes without old tuple: the index finds the row."""
    changes, later = Changes(), Changes()
    changes.insert(MAIL, "1", "a@example.org")
    later.update(MAIL, "2", "a@example.org")
    assert applied(run, changes, later) == {"public.mail": [("2", "a@example.org")]}


@pytest.mark.only(holds="tables", ways={"short"})
def test_copied_rows_replace(run, changes: Changes):
    """A row of a copy takes the place of a row with its key."""
    later = Changes()
    later.snapshot(ITEMS, "1", "copied", None)
    later.snapshot(ITEMS, "9", "copied", None)
    held = applied(run, changes, later)
    assert held == {
        "public.items": [("1", "copied", None), ("2", "two", "body of two"), ("9", "copied", None)]
    }


def test_composite_keys_do_not_run_together(run):
    """Keys of two columns are told apart also where their texts together are the same."""
    pairs = table("public.pairs", {"a": "text", "b": "text", "n": "int4"}, key=["a", "b"], version=6)
    changes, later = Changes(), Changes()
    changes.insert(pairs, "x,", "y", "1")
    changes.insert(pairs, "x", ",y", "2")
    changes.insert(pairs, "", "x,y", "3")
    later.update(pairs, "x,", "y", "10")
    later.delete(pairs, "", "x,y", None)
    assert applied(run, changes, later) == {"public.pairs": [("x", ",y", "2"), ("x,", "y", "10")]}


def test_messages_change_no_table(run, changes: Changes):
    """A logical message between rows does no harm."""
    changes.message("prefix", "content")
    changes.insert(ITEMS, "3", None, None)
    assert len(applied(run, changes)["public.items"]) == 3


AWKWARD_NAMES = [
    ("Public", "select", "order"),
    ("target", "target", "target"),
    ("temp", "main", "rowid2"),
    ('quo"ted', "semi;colon", "sin'gle"),
    ("ünï", "täble", "colömn with space"),
    ("main", "pgsluice_rows", "v"),
    ("s", "t" * 63, "%s {} $1 \\"),
]


def test_awkward_names(run):
    """Names that need quotes, are reserved, or are the target's own words."""
    changes, later, wanted = Changes(), Changes(), {}
    for version, (schema, name, column) in enumerate(AWKWARD_NAMES, 7):
        odd = table((schema, name), {column: "int8", "x": "text"}, key=[column], version=version)
        changes.insert(odd, "1", "a")
        changes.insert(odd, "2", "b")
        later.update(odd, "1", UNCHANGED)
        later.update(odd, "3", UNCHANGED, old=["2", None])
        wanted[f"{schema}.{name}"] = [("1", "a"), ("3", "b")]
    assert applied(run, changes, later) == wanted


def test_awkward_values(run):
    """Empty texts, quotes, line ends, other scripts and the text NULL come through, also in keys."""
    texts = [
        "",
        "NULL",
        "null",
        "'",
        '"',
        "\\",
        "a\nb\r\n\tc",
        "€ 😀 ß",
        "\u0001",
        " ",
        "{1,2}",
        "x" * 70_000,
    ]
    words = table("public.words", {"word": "text", "again": "text"}, key=["word"], version=8)
    changes, later = Changes(), Changes()
    for text in texts:
        changes.insert(words, text, text)
    for text in texts:
        later.update(words, text, UNCHANGED)
    later.insert(words, "nothing", None)
    held = applied(run, changes, later, chunk_rows=5)
    assert sorted(held["public.words"], key=str) == sorted(
        [("nothing", None), *zip(texts, texts, strict=True)], key=str
    )


@pytest.mark.only(holds="tables", ways=("short",))  # the other way's log knows one version per table
def test_a_version_that_comes_back(run, changes: Changes):
    """The identity goes to FULL and back in one batch: rows are applied in their order, not by version."""
    full = replace(ITEMS, id=5, relid=ITEMS.relid, identity="f")
    changes.update(full, "1", "b", "x", old=["1", "one", "body of one"])
    changes.insert(full, "3", "x", None)
    changes.delete(full, "3", "x", None)
    changes.commit()
    changes.update(ITEMS, "1", "c", "y")
    changes.insert(ITEMS, "3", "y", None)
    changes.commit()
    held = applied(run, changes)
    assert held == {"public.items": [("1", "c", "y"), ("2", "two", "body of two"), ("3", "y", None)]}


def test_full_identity_is_not_keyed_by_the_primary_key(run):
    """The catalog's key is that of now: rows of before may share it, and both stay."""
    table_ = table("public.t", {"id": "int8", "v": "text"}, identity="f", primary_key=["id"], version=6)
    changes = Changes()
    changes.insert(table_, "1", "a")
    changes.insert(table_, "1", "b")
    changes.insert(table_, "2", "c")
    changes.commit()
    later = Changes()
    later.delete(table_, "1", "a")
    later.update(table_, "3", "c", old=["2", "c"])
    assert applied(run, changes, later) == {"public.t": [("1", "b"), ("3", "c")]}
