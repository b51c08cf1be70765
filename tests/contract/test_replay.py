"""What comes again after a failure or a restart, and who may write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.errors import TargetFencedError, TargetUnavailableError
from pgsluice.testing.batches import UNCHANGED, Changes, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgsluice.sinks.base import DataStep

ITEMS = table("public.items", {"id": "int8", "n": "text", "body": "text"}, key=["id"], version=1)
LOG = table("public.log", {"line": "text"}, identity="f", version=2)

exactly_once = pytest.mark.only(holds="tables", guarantee="exactly once")


@dataclass
class Breaking:
    """A step that fails when its rows are read: after the first chunk, or instead of the frame."""

    step: DataStep
    small: bool = True
    ranges: tuple[()] = ()
    entry: None = None
    tables: Any = field(init=False)

    def __post_init__(self) -> None:
        self.tables = self.step.tables

    def chunks(self) -> Iterator[pa.Table]:
        """The first chunk, then the failure."""
        yield next(iter(self.step.chunks()))
        raise TargetUnavailableError("the connection broke")

    def frame(self) -> DataFrame:
        """The failure."""
        raise TargetUnavailableError("the connection broke")


@dataclass
class BreakingBatch:
    """A batch whose last step breaks."""

    start: str | None
    end: str
    steps: list[Any]
    swaps: tuple[()] = ()
    held: tuple[()] = ()


def first() -> Changes:
    """One transaction."""
    changes = Changes()
    changes.insert(ITEMS, "1", "a", "large")
    changes.insert(LOG, "same")
    changes.insert(LOG, "same")
    changes.commit()
    return changes


def second() -> Changes:
    """The transaction after it."""
    changes = Changes()
    changes.commit()
    changes.update(ITEMS, "1", "b", UNCHANGED)
    changes.insert(ITEMS, "2", "c", None)
    changes.delete(LOG, "same")
    return changes


def both() -> Changes:
    """Both transactions."""
    changes = first()
    changes.update(ITEMS, "1", "b", UNCHANGED)
    changes.insert(ITEMS, "2", "c", None)
    changes.delete(LOG, "same")
    return changes


AFTER_FIRST = {"public.items": [("1", "a", "large")], "public.log": [("same",), ("same",)]}
AFTER_BOTH = {"public.items": [("1", "b", "large"), ("2", "c", None)], "public.log": [("same",)]}


@exactly_once
def test_progress_is_what_was_applied_last(run):
    """A new target holds nothing; after a batch a new run is told that batch's end."""
    sink, token = run.open()
    assert token is None
    sink.apply(run.batch(first(), None, "one"))
    sink.close()
    assert run.open()[1] == "one"


@exactly_once
def test_empty_batch_moves_progress(run):
    """A batch without rows is kept too."""
    sink, _ = run.open()
    sink.apply(run.batch(Changes(), None, "one"))
    sink.close()
    assert (run.open()[1], run.target.tables()) == ("one", {})


@exactly_once
def test_replay_of_the_last_batch(run):
    """When the reply to a batch was lost, applying it again changes nothing."""
    sink, _ = run.open()
    sink.apply(run.batch(first(), None, "one"))
    batch = run.batch(second(), "one", "two")
    sink.apply(batch)
    sink.apply(batch)
    sink.close()
    assert run.target.tables() == AFTER_BOTH


@exactly_once
def test_replay_that_ends_elsewhere(run):
    """A run that failed is followed by one whose batch has the same start and another end."""
    sink, token = run.open()
    broken = run.batch(first(), token, "one", chunk_rows=1)
    with pytest.raises(TargetUnavailableError):
        sink.apply(BreakingBatch(token, "one", [Breaking(broken.steps[0])]))
    sink.close()
    sink, token = run.open()
    assert token is None
    sink.apply(run.batch(both(), token, "two"))
    sink.close()
    assert run.target.tables() == AFTER_BOTH


@exactly_once
def test_failure_before_the_write(run):
    """A batch that breaks in its second step leaves nothing, and can be applied again by the same sink."""
    sink, _ = run.open()
    sink.apply(run.batch(first(), None, "one"))
    whole = run.batch(second(), "one", "two", chunk_rows=1)
    with pytest.raises(TargetUnavailableError):
        sink.apply(BreakingBatch("one", "two", [whole.steps[0], Breaking(whole.steps[0])]))
    assert run.target.tables() == AFTER_FIRST
    sink.apply(whole)
    sink.close()
    assert run.target.tables() == AFTER_BOTH
    assert run.open()[1] == "two"


@exactly_once
def test_new_table_of_a_failed_batch(run):
    """A table that a failed batch would have made is made by the next try."""
    sink, _ = run.open()
    whole = run.batch(first(), None, "one", chunk_rows=1)
    with pytest.raises(TargetUnavailableError):
        sink.apply(BreakingBatch(None, "one", [whole.steps[0], Breaking(whole.steps[0])]))
    sink.apply(whole)
    sink.close()
    assert run.target.tables() == AFTER_FIRST


@exactly_once
def test_second_opener_fences_the_first(run):
    """When a second run opens the target for the same pipeline, the first can write no more."""
    old, _ = run.open()
    old.apply(run.batch(first(), None, "one"))
    new, token = run.open()
    with pytest.raises(TargetFencedError):
        old.apply(run.batch(second(), "one", "two"))
    assert run.target.tables() == AFTER_FIRST
    new.apply(run.batch(second(), token, "two"))
    new.close()
    old.close()
    assert run.target.tables() == AFTER_BOTH


@exactly_once
def test_batch_that_does_not_follow(run):
    """A batch that begins somewhere else than the target stands is refused."""
    sink, _ = run.open()
    sink.apply(run.batch(first(), None, "one"))
    with pytest.raises(TargetFencedError):
        sink.apply(run.batch(second(), "elsewhere", "two"))
    sink.close()
    assert run.target.tables() == AFTER_FIRST


@exactly_once
def test_two_pipelines_in_one_target(run):
    """Each pipeline has progress of its own, and neither fences the other."""
    shop, _ = run.open("shop")
    mail, _ = run.open("mail")
    shop.apply(run.batch(first(), None, "shop 1"))
    letters = table("mail.letters", {"id": "int8"}, key=["id"], version=9)
    changes = Changes()
    changes.insert(letters, "1")
    mail.apply(run.batch(changes, None, "mail 1"))
    shop.apply(run.batch(second(), "shop 1", "shop 2"))
    shop.close()
    mail.close()
    assert run.target.tables() == AFTER_BOTH | {"mail.letters": [("1",)]}
    assert (run.open("shop")[1], run.open("mail")[1]) == ("shop 2", "mail 1")


def test_closing_twice(run):
    """close() never raises, neither before open() nor twice."""
    run.target.sink().close()
    sink, _ = run.open()
    sink.close()
    sink.close()
