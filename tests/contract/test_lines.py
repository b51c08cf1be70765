"""What sinks of lines write: every change, in order, and again after a failure."""

from __future__ import annotations

import pytest

from pgsluice.testing.batches import UNCHANGED, Changes, table

pytestmark = pytest.mark.only(holds="lines")

ITEMS = table("public.items", {"id": "int8", "name": "text", "body": "text"}, key=["id"], version=1)


def history() -> Changes:
    """Every kind of change, over two transactions."""
    changes = Changes()
    changes.insert(ITEMS, "1", 'a "quote" \\ and\na line', "large")
    changes.update(ITEMS, "1", "b", UNCHANGED)
    changes.commit()
    changes.update(ITEMS, "2", None, UNCHANGED, old=["1", None, None])
    changes.truncate(ITEMS)
    changes.message("prefix", "content")
    changes.delete(ITEMS, "2", None, None)
    return changes


def test_order(run):
    """There is one line per change, in the order of their positions."""
    sink, token = run.open()
    assert token is None
    sink.apply(run.batch(history(), None, "one", chunk_rows=2))
    lines = run.target.lines()
    assert [line["action"] for line in lines] == ["I", "U", "U", "T", "M", "D"]
    assert [(line["lsn"], line["seq"]) for line in lines] == [
        ("0/100", 1), ("0/100", 2), ("0/200", 1), ("0/200", 2), ("0/200", 3), ("0/200", 4),
    ]  # fmt: skip


def test_what_was_not_sent_is_marked(run):
    """An unchanged large value is neither null nor missing without a trace."""
    sink, _ = run.open()
    sink.apply(run.batch(history(), None, "one"))
    update = run.target.lines()[1]
    assert [column["name"] for column in update["columns"]] == ["id", "name"]
    assert update["unchanged"] == ["body"]


def test_lines_are_out_when_apply_returns(run):
    """Nothing waits in a buffer: the lines can be read while the sink is open."""
    sink, _ = run.open()
    sink.apply(run.batch(history(), None, "one"))
    assert len(run.target.lines()) == 6


@pytest.mark.only(holds="lines", guarantee="at least once")
def test_replay(run):
    """A batch that comes again is written again, with the same positions to know it by."""
    for _ in range(2):
        sink, token = run.open()
        assert token is None
        sink.apply(run.batch(history(), None, "one"))
        sink.close()
    lines = run.target.lines()
    assert lines[:6] == lines[6:]
