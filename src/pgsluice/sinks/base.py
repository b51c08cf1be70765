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
Early
    A sink with ``takes_arriving`` may be given a transaction that is still coming in: ``chunks`` waits for
    its rows, ``tables`` grows with them, and ``end`` is known when ``chunks`` has ended. When ``chunks``
    raises, nothing of the batch may stay.
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
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa
    from pydantic import BaseModel
    from pyspark.sql import DataFrame

    from pgsluice.errors import TargetError
    from pgsluice.schema.entry import SchemaEntry
    from pgsluice.schema.statements import NamedObject, SchemaStatement
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues

Guarantee = Literal["exactly once", "idempotent", "at least once"]


class RawRange(Protocol):
    """Rows of a table as the source's own COPY gives them. Plain data, which can be sent to a task."""

    @property
    def relation(self) -> int:
        """The table version, as in the entries."""
        ...

    @property
    def name(self) -> str:
        """What tells this range of this copy from every other one, also from those of later copies."""
        ...

    @property
    def begins(self) -> bool:
        """Whether it is the first range of its table."""
        ...

    @property
    def empties(self) -> bool:
        """Whether rows that the target has of the table have to go first."""
        ...

    def pieces(self, columns: Sequence[int], *, binary: bool) -> Iterator[Any]:
        """Some of the columns, as whole rows of COPY's text or binary format, some MiB at a time."""
        ...


class DataStep(Protocol):
    """A run of entries in the envelope of :mod:`pgsluice.changelog.envelope`; or a change of the schema."""

    @property
    def entry(self) -> SchemaEntry | None:
        """The change of the schema; there are no rows then. Only for a sink that :func:`follows_schema`."""
        ...

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
    def ranges(self) -> Sequence[RawRange]:
        """
        The same rows for a sink that reads COPY's text; empty where there are none in that form.

        That is so for all changes, and for copied tables whose rows a modifier has to see.
        """
        ...

    def each_range(self, work: Callable[[RawRange], int]) -> list[int]:
        """
        Call ``work`` for each of ``ranges``, in tasks that run at the same time; gives its results in order.

        A task may run twice, and the first run may have done its work or not.
        """
        ...

    def in_tasks(
        self,
        work: Callable[[int, Iterator[pa.RecordBatch]], str],
        through: Callable[[DataFrame], DataFrame] | None = None,
    ) -> list[str]:
        """
        Call ``work`` in tasks that run at the same time, each with its number and its share of the rows.

        A share is neighbouring rows, in order, in batches that are bounded in size; ``through`` is what
        becomes of ``frame()`` before. Gives what the tasks that succeeded returned, in the order of the rows.
        A task may run twice, so only what is returned counts.
        """
        ...

    @property
    def small(self) -> bool:
        """
        Whether the rows are few and on the driver already.

        Then ``frame()`` is a local relation, and ``collect()`` of projections and filters needs no job.
        """
        ...


@dataclass(frozen=True, slots=True)
class Swap:
    """
    A table that was copied anew beside the stream, and takes the place of the old one.

    Its rows become those of ``table``, in one stroke with the progress; the table beside and the progress of
    the copy go. With ``adds`` the rows of before are others', and stay.
    """

    table: TableVersion
    beside: TableVersion
    pipeline: str  # the name under which the copy kept its progress
    adds: bool = False


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

    @property
    def swaps(self) -> Sequence[Swap]:
        """Tables to swap after the steps; only for a sink that :class:`HoldsTables`."""
        ...

    @property
    def held(self) -> Collection[int]:
        """
        The tables, by number, that the target was given whole before this batch.

        One of them that is gone is never made for the rows that come: it would lack all others.
        """
        ...


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink may know about the pipeline it works for."""

    pipeline: str  # name, unique per target: progress is kept under it
    state_dir: Path  # of the pipeline; a sink may keep scratch files below it, never progress
    notes_schema: bool = False  # whether the source has event triggers, whose entries come with the rows


SchemaChanges = Literal["apply", "pass", "ignore"]
"""
What a sink does with changes of the source's schema; it says so as ``schema_changes``, or ignores them.

``apply``: what holds tables makes them too. ``pass``: a feed hands them on, as rows of
``pgsluice.schema_log``.
"""


def follows_schema(sink: Sink) -> bool:
    """Whether a sink wants to be given changes of the schema, to make them in its target."""
    return getattr(sink, "schema_changes", "ignore") == "apply"


def keeps_texts(sink: Sink) -> bool:
    """Whether a target has texts where the source has values of types that its users made."""
    return getattr(sink, "keeps_texts", False)


def passes_schema(sink: Sink) -> bool:
    """Whether a sink wants rows of ``pgsluice.schema_log``."""
    return getattr(sink, "schema_changes", "ignore") == "pass"


def takes_identity(sink: Sink) -> bool:
    """
    Whether a sink asks for what an injector adds: its rows may have the columns of ``INJECTED`` then.

    It says so as ``takes_identity``. Targets that hold tables don't: their rows stay in the envelope.
    """
    return getattr(sink, "takes_identity", False)


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


@runtime_checkable
class HoldsTables(Protocol):
    """A sink whose target has tables, of which one can be filled anew beside the others."""

    def twin(self) -> Sink:
        """Another sink for the same target, which works at the same time."""
        ...

    def holds(self, table: TableVersion) -> bool:
        """Whether the target has a table of that name, as it was made beside another one for this version."""
        ...

    def make_beside(self, table: TableVersion, beside: TableVersion) -> None:
        """Make an empty table like another one; what an earlier copy of that name has left goes."""
        ...

    def drop_beside(self, beside: TableVersion) -> None:
        """Remove such a table, if it is there."""
        ...

    def forget(self, pipeline: str) -> None:
        """Remove the progress that an earlier twin has left under that name."""
        ...

    def tied_to(self, tables: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """The tables that can only be filled anew together with these; all by schema and name."""
        ...


@runtime_checkable
class SharesTables(Protocol):
    """A sink whose tables may have rows of others, by its configuration."""

    @property
    def shares_tables(self) -> bool:
        """Whether such rows are to be left there."""
        ...

    def has_rows(self, table: tuple[str, str]) -> bool:
        """Whether a table of the target is there and not empty; by schema and name."""
        ...


class Trial(Protocol):
    """Rows on their way into a target, none of which will stay."""

    def take(self, rows: pa.Table, tables: Mapping[int, TableVersion]) -> TargetError | None:
        """
        Put rows, in the envelope, on top of those that were taken; None if the target takes them.

        Else nothing of these rows is there, those before still are, and this is why. An error that has
        nothing to do with the rows is raised.
        """
        ...


@runtime_checkable
class TriesRows(Protocol):
    """A sink that can find out which rows its target refuses. Of a batch it reads nothing but ``chunks``."""

    def trial(self) -> AbstractContextManager[Trial]:
        """Begin at what the target holds; at the end everything is as it was before."""
        ...


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """How a target wants the source's schema."""

    owners: bool = False
    privileges: bool = False
    roles: bool = False  # whether the roles are made that these need
    clean: bool = False  # whether objects of the same names are dropped before the first copy


@runtime_checkable
class TakesSchema(Protocol):
    """A sink whose target has a schema of its own, made from the source's before tables are copied."""

    @property
    def schema_options(self) -> SchemaOptions | None:
        """None: the schema is left to others."""
        ...

    def database(self) -> tuple[str, str] | None:
        """What tells the target from every other database; None when its role may not know."""
        ...

    def clean(self, objects: Sequence[NamedObject]) -> None:
        """Drop these objects and nothing else; once, before the first copy."""
        ...

    def make_objects(self, statements: Sequence[SchemaStatement], *, noted: bool = False) -> None:
        """Make what is not there yet; ``noted``: for a copy that may have to begin again."""
        ...

    def lacks(self, tables: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of some tables, by schema and name, that are not there and that it may make."""
        ...

    def is_outdated(self, statements: Sequence[SchemaStatement]) -> bool:
        """Whether an unfinished copy has made something by another statement than the source has now."""
        ...

    def note_outdated(self) -> None:
        """Let what an unfinished copy has made be outdated from here on."""
        ...

    def unmake(self) -> None:
        """Drop what an unfinished copy has made."""
        ...

    def finish_making(self) -> None:
        """The first copy is finished: what it has made stays."""
        ...

    def set_sequences(self, values: Mapping[tuple[str, str], int]) -> None:
        """Bring sequences to these values, by schema and name."""
        ...

    def fill_views(self, names: Sequence[tuple[str, str]], *, again: bool = False) -> None:
        """Fill the materialized views among these, by schema and name, that have never been filled."""
        ...


Key = tuple[str, ...]
"""What tells a row from others: the texts of its key, or of a table without one a digest of the row."""

Tally = tuple[int, int]
"""How many rows there are, and the sum of their digests: the same in whatever order they are read."""


@dataclass(frozen=True, slots=True)
class Comparable:
    """What of a table is compared."""

    version: TableVersion  # under its name in the target
    columns: tuple[int, ...]  # by their places in the version
    key: tuple[int, ...]  # empty: rows are told apart by all that is compared


class RowDigests(Protocol):
    """
    Rows as numbers that can be compared with those of others, of the same kind of server.

    Rows are dealt out to buckets by their keys, of which there are a power of two.
    """

    def by_bucket(self, buckets: int) -> dict[int, Tally]:
        """All rows; a bucket without any is left out."""
        ...

    def by_key(self, buckets: int, chosen: Sequence[int], keys: Collection[Key] = ()) -> dict[Key, Tally]:
        """The rows of some buckets, and of these only those with ``keys``, if there are any given."""
        ...


class Comparison(Protocol):
    """A target that is looked at, and not changed."""

    def progress(self, pipeline: str) -> str | None:
        """The token that the target holds."""
        ...

    def columns(self, table: TableVersion) -> Mapping[str, str] | None:
        """Names and types of a table's columns; None when there is no such table."""
        ...

    def held(self, table: Comparable) -> RowDigests:
        """What the target has."""
        ...

    def expected(self, table: Comparable, rows: pa.Table) -> RowDigests:
        """What it would have of some rows in the envelope."""
        ...


@runtime_checkable
class ComparesRows(Protocol):
    """A sink whose target's rows can be compared with the source's."""

    compares_as_source: bool  # whether digests of its rows are those of a PostgreSQL source

    def comparing(self) -> AbstractContextManager[Comparison]:
        """Look at the target; nothing has to be open, and a run may be at work beside."""
        ...


@dataclass(frozen=True, slots=True)
class SinkKind:
    """What the registry knows about a kind of sink, without importing its client library."""

    name: str
    summary: str  # one line for `pgsluice targets`
    form: str  # tables, lines, change feed, messages, documents
    guarantee: Guarantee
    config: type[BaseModel]
    build: Any  # (config) -> Sink; imports what it needs
    example: str  # YAML of the target section
    extra: str | None = None  # pip extra that brings its library
    tries_rows: bool = False  # whether its sink TriesRows: rows that the target refuses can be left out
    max_wait: float | None = None  # seconds that its batches fill by default; None: as the pipeline's
