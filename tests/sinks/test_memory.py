"""The memory sink as a store that tests can look into."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.memory import KIND, MemoryConfig, MemoryStore
from pgsluice.testing.batches import Changes, table

if TYPE_CHECKING:
    from pathlib import Path

ITEMS = table("public.items", {"id": "int8", "name": "text"}, key=["id"])


def one_item() -> Changes:
    """One row."""
    changes = Changes()
    changes.insert(ITEMS, "1", "a")
    return changes


def test_shared_by_name(tmp_path: Path):
    """A store that a sink writes to is found by its name, and can be forgotten."""
    sink = KIND.build(MemoryConfig(name="shared"))
    sink.open(SinkContext("shop", tmp_path))
    sink.apply(one_item().batch(start=None, end="one"))
    store = MemoryStore.named("shared")
    assert store.rows().equals(one_item().rows())
    assert store.tables["public.items"].rows == [("1", "a")]
    MemoryStore.forget("shared")
    assert MemoryStore.named("shared").rows().num_rows == 0
    MemoryStore.forget("shared")


def test_wait_for(tmp_path: Path):
    """Who waits for a row is woken by the batch that brings it, and told when none came."""
    sink = KIND.build(MemoryConfig(name="waiting"))
    sink.open(SinkContext("shop", tmp_path))
    store = MemoryStore.named("waiting")
    MemoryStore.forget("waiting")
    assert not store.wait_for(lambda held: len(held.batches) > 0, timeout=0.01)
    writer = threading.Timer(0.05, lambda: sink.apply(one_item().batch(start=None, end="one")))
    writer.start()
    assert store.wait_for(lambda held: held.progress.get("shop") == "one", timeout=120)
    writer.join()


def test_columns_that_were_added(tmp_path: Path):
    """Rows of an older version of the table have NULL in a column that came later, and are still found."""
    wider = table("public.log", {"line": "text", "level": "text"}, identity="f", version=2)
    sink = KIND.build(MemoryConfig(name="wider"))
    sink.open(SinkContext("shop", tmp_path))
    changes = Changes()
    changes.insert(table("public.log", {"line": "text"}, identity="f"), "x")
    changes.delete(wider, "x", None)
    changes.insert(wider, "y", "info")
    sink.apply(changes.batch(start=None, end="one"))
    assert MemoryStore.named("wider").tables["public.log"].rows == [("y", "info")]
    MemoryStore.forget("wider")
