"""Where a loop ends that was told to: neither later, nor after waiting for what is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import BatchOptions, MemorySink
from pgsluice.changelog.position import Lsn
from pgsluice.sinks.memory import MemoryStore
from pgsluice.testing.batches import Changes, table
from tests.contract.loops import make_log, make_loop, run_to_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ITEMS = table("public.items", {"id": "int8"}, key=["id"])


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Path:
    """A state directory whose log has five transactions."""
    changes = Changes()
    for key in range(5):
        changes.insert(ITEMS, str(key))
        changes.commit()
    make_log(tmp_path, changes)
    return tmp_path


def test_it_does_not_follow_what_came_later(place: Path) -> None:
    """Under traffic that never pauses there is always more: it ends at the position that it was given."""
    store = MemoryStore()
    loop = make_loop(MemorySink(store), place, BatchOptions(max_bytes=1))
    loop.stop_at(Lsn(0x100))
    run_to_end(loop)
    assert loop.finished
    assert store.tables["public.items"].rows == [("0",)]


def test_it_does_not_wait_for_more_than_is_asked_for(place: Path) -> None:
    """Batches may fill for an hour, but everything up to the end is there already."""
    store = MemoryStore()
    run_to_end(make_loop(MemorySink(store), place, BatchOptions(max_wait=3600)))
    assert len(store.tables["public.items"].rows) == 5
