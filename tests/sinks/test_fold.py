"""Folding gives what applying row by row gives."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsluice.errors import TargetError, TargetSchemaError
from pgsluice.sinks.fold import Folded, fold
from pgsluice.sinks.fold.keys import encode
from pgsluice.sinks.memory import TableState
from pgsluice.testing.batches import UNCHANGED, Changes, table
from tests.sinks.histories import TABLES, histories

# the first example compiles the kernel, which takes longer than hypothesis allows
THOROUGHLY = settings(deadline=None, max_examples=300)

ITEMS = table("public.items", {"id": "int8", "name": "text", "body": "text"}, key=["id"])


def apply_folded(before: list, folded: Folded, version) -> Counter:
    """The plainest way to apply the result of a fold."""
    rows = [] if folded.truncated else [tuple(row) for row in before]
    key = version.merge_key or range(len(version.columns))
    by_key = {tuple(row[i] for i in key): row for row in rows}
    inserted = [tuple(row) for row in (folded.insert.to_pylist() if folded.insert is not None else [])]
    if folded.patch is not None:
        bases = [tuple(base.values()) for base in folded.patch.base.to_pylist()]
        for place, (row, base) in enumerate(zip(folded.patch.rows.to_pylist(), bases, strict=True)):
            for column, flags in folded.patch.missing.items():
                if flags[place].as_py():
                    assert row[column] is None
                    row[column] = by_key[base][column]
            inserted.append(tuple(row))
    for gone in folded.delete.to_pylist() if folded.delete is not None else []:
        copies = gone.pop("copies", len(rows))
        for _ in range(copies):
            found = [row for row in rows if tuple(row[i] for i in key) == tuple(gone.values())]
            if not found:
                break
            rows.remove(found[0])
    return Counter([*rows, *inserted])


@pytest.mark.parametrize("kind", TABLES)
@THOROUGHLY
@given(data=st.data())
def test_fold_equals_row_by_row(kind: str, data: st.DataObject):
    """For any history, the folded run leaves the rows that the source has and that the memory sink has."""
    before, history = data.draw(histories(TABLES[kind]))
    rows = history.changes.rows()
    state = TableState()
    for row in before:
        state.apply({"op": "I", "values": row}, history.version)
    for change in rows.to_pylist():
        state.apply(change, history.version)
    expected = Counter(tuple(row) for row in history.rows)
    assert Counter(state.rows) == expected
    assert apply_folded(before, fold(rows, history.version), history.version) == expected


@pytest.mark.parametrize("kind", TABLES)
@THOROUGHLY
@given(data=st.data())
def test_cut_anywhere(kind: str, data: st.DataObject):
    """A run folded in two pieces gives the same rows as in one, and slices of a larger table do no harm."""
    before, history = data.draw(histories(TABLES[kind]))
    rows = history.changes.rows()
    cut = data.draw(st.integers(0, rows.num_rows))
    first = apply_folded(before, fold(rows.slice(0, cut), history.version), history.version)
    second = apply_folded(list(first.elements()), fold(rows.slice(cut), history.version), history.version)
    assert second == Counter(tuple(row) for row in history.rows)


def test_only_inserts_cost_nothing():
    """A run of INSERTs is handed on as it came, without a copy."""
    changes = Changes()
    changes.insert(ITEMS, "1", "a", "b")
    changes.insert(ITEMS, "2", "a", None)
    rows = changes.rows()
    folded = fold(rows, ITEMS)
    assert (
        folded.insert.chunk(0).values.buffers()[2].address
        == rows["values"].chunk(0).values.buffers()[2].address
    )
    assert (folded.truncated, folded.delete, folded.patch) == (False, None, None)


def test_swap_of_keys_with_unchanged_values():
    """1 and 2 swap by three UPDATEs that send no body: each row takes the body of its own base row."""
    changes = Changes()
    changes.update(ITEMS, "0", "one", UNCHANGED, old=["1", None, None])
    changes.update(ITEMS, "1", "two", UNCHANGED, old=["2", None, None])
    changes.update(ITEMS, "2", "one", UNCHANGED, old=["0", None, None])
    patch = fold(changes.rows(), ITEMS).patch
    assert patch.rows.to_pylist() == [["2", "one", None], ["1", "two", None]]
    assert patch.base.to_pylist() == [{"k0": "1"}, {"k0": "2"}]
    assert {column: flags.to_pylist() for column, flags in patch.missing.items()} == {2: [True, True]}


def test_the_last_value_that_was_sent_counts():
    """A large value set by an earlier UPDATE of the run survives one that did not send it."""
    changes = Changes()
    changes.update(ITEMS, "1", "a", "CCC")
    changes.update(ITEMS, "1", "b", UNCHANGED)
    folded = fold(changes.rows(), ITEMS)
    assert folded.insert.to_pylist() == [["1", "b", "CCC"]]
    assert folded.patch is None


def test_unchanged_value_without_a_row():
    """An UPDATE after TRUNCATE that relies on a value nobody has stops instead of writing NULL."""
    changes = Changes()
    changes.truncate(ITEMS)
    changes.update(ITEMS, "1", "a", UNCHANGED)
    with pytest.raises(TargetError, match=r"public\.items left a large value unchanged"):
        fold(changes.rows(), ITEMS)


def test_change_of_a_table_without_identity():
    """An UPDATE of a table that has neither key nor FULL can't be applied and says so."""
    keyless = table("public.log", {"line": "text"}, identity="n")
    changes = Changes()
    changes.insert(keyless, "x")
    changes.update(keyless, "y")
    with pytest.raises(TargetSchemaError, match="no replica identity"):
        fold(changes.rows(), keyless)


def test_delete_without_key():
    """A DELETE that says nothing about its row is refused."""
    changes = Changes()
    changes.insert(ITEMS, "1", "a", "b")
    rows = changes.rows().to_pylist()
    rows[0] |= {"op": "D", "values": None}
    with pytest.raises(TargetSchemaError, match="does not say which row"):
        fold(pa.Table.from_pylist(rows, schema=changes.rows().schema), ITEMS)


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.text("a,|\\", max_size=3))] * 3), min_size=1))
def test_codes_are_exact(keys: list[tuple[str | None, ...]]):
    """Two keys have the same code exactly when they are equal, NULLs and separators included."""
    codes, count = encode([pa.array(column, pa.string()) for column in zip(*keys, strict=True)])
    assert len(set(keys)) == len(set(codes.tolist())) == len(set(zip(keys, codes.tolist(), strict=True)))
    assert max(codes) < count
