"""
The contract between the pipeline and a sink.

Order
    The pipeline calls :meth:`Sink.apply` from one thread, one batch at a time, in the order of the
    source. Inside a batch the steps are in order, and inside a step the rows are in order of
    ``(commit_lsn, seq)``.
Whole transactions
    A batch holds whole source transactions, never a part of one.
Durability
    When ``apply`` returns, the batch and its progress token are durable in the target. A sink with
    transactions writes both in one. What ``open`` returns is the only truth about progress.
Replay
    After a crash the same rows come again from the position that ``open`` gave. The replayed batch
    begins at the same place but **may end elsewhere**: a sink relies on positions of rows and on its
    progress token, never on a batch's identity.
Raise
    A :class:`~pgsluice.errors.TargetError` whose class is transient is tried again with the same
    batch after a pause, and ``apply`` must then be able to run again, also when the failed call did
    reach the target and only its reply was lost: a sink that keeps progress finds ``batch.end`` in
    place of ``batch.start`` and returns. Anything else stops the loop.
Fencing
    A sink that keeps progress moves it from ``batch.start`` to ``batch.end`` and only for its newest
    opener; when it finds another token or another opener it raises
    :class:`~pgsluice.errors.TargetFencedError` and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pydantic import BaseModel
    from pyspark.sql import DataFrame

    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues

Guarantee = Literal["exactly once", "idempotent", "at least once"]


class DataStep(Protocol):
    """A run of data entries, in the envelope of :mod:`pgsluice.changelog.envelope`."""

    @property
    def tables(self) -> Mapping[int, TableVersion]:
        """The table versions that the rows' ``relation`` numbers name."""
        ...

    def chunks(self) -> Iterator[pa.Table]:
        """
        The rows as Arrow tables on the driver, in order; each is bounded in size.

        May be called again, and then gives the same rows; the chunks may be cut differently.
        """
        ...

    def frame(self) -> DataFrame:
        """
        The rows as a Spark frame, for sinks that write from executors.

        Its partitions, read one after the other, give the rows in order.
        """
        ...

    def typed(self, number: int, choices: SpecialValues, columns: Sequence[str]) -> DataFrame:
        """
        The rows of one table version, with some of the columns of :mod:`pgsluice.schema.typed.layout`.

        Order is that of ``frame()``; ``number`` is a key of ``tables``. Each column costs: name those that
        are needed.
        """
        ...

    @property
    def small(self) -> bool:
        """
        Whether the rows are few and on the driver already.

        Then ``frame()`` is a local relation, and ``collect()`` of projections and filters needs no job.
        """
        ...


class Batch(Protocol):
    """Whole source transactions, as ordered steps."""

    @property
    def start(self) -> str | None:
        """The token of what the target holds before this batch; None at the very beginning."""
        ...

    @property
    def end(self) -> str:
        """The token to keep once the batch is applied. Opaque: compare for equality only."""
        ...

    @property
    def steps(self) -> Sequence[DataStep]:
        """What to apply, in order. May be empty: then only the progress moves."""
        ...


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink may know about the pipeline it works for."""

    pipeline: str  # name, unique per target: progress is kept under it
    state_dir: Path  # of the pipeline; a sink may keep scratch files below it, never progress


class Sink(Protocol):
    """A target that takes batches. See the module's text for order, durability and replay."""

    def open(self, context: SinkContext) -> str | None:
        """Connect, make what is missing, and give the progress token that the target holds."""
        ...

    def apply(self, batch: Batch) -> None:
        """Apply one batch and its progress; durable on return."""
        ...

    def close(self) -> None:
        """Let go of the target. Called once, also after an error; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class SinkKind:
    """What the registry knows about a kind of sink, without importing its client library."""

    name: str
    summary: str  # one line for `pgsluice targets`
    form: str  # tables, lines, messages, documents
    guarantee: Guarantee
    config: type[BaseModel]
    build: Any  # (config) -> Sink; imports what it needs
    example: str  # YAML of the target section
    extra: str | None = None  # pip extra that brings its library
