"""
The memory sink: keeps everything in this process. The reference that other sinks are compared with.

It applies row by row, in the plainest way there is: what a sink for tables should hold after a batch is
what this one holds. Neighbours: :mod:`pgsluice.sinks.base` is the contract.

Unit of parallelism: none, the driver applies. Guarantee: exactly once for as long as the process lives.
On replay: progress is set together with the rows, so nothing is doubled.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from pgsluice.changelog.envelope import DELETE, ENVELOPE, INSERT, SNAPSHOT, TRUNCATE, UPDATE
from pgsluice.errors import TargetError, TargetFencedError
from pgsluice.sinks.base import SinkKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Batch, SinkContext, Swap

Row = tuple[str | None, ...]
"""A row of a table, as PostgreSQL's text."""


class MemoryConfig(BaseModel):
    """Options of the memory sink."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("default", description="The store of this process to write to, as in MemoryStore.named")


@dataclass(slots=True)
class TableState:
    """The rows of one table, changed one by one."""

    _key: tuple[int, ...] = ()  # the columns that find a row; all of them in a table without key
    _found: dict[Row, list[Row]] = field(default_factory=dict)  # rows by their key

    @property
    def rows(self) -> list[Row]:
        """The rows, in no particular order."""
        return [row for rows in self._found.values() for row in rows]

    def apply(self, change: Mapping[str, Any], table: TableVersion) -> None:
        """Apply one envelope row."""
        self._find_by(table.merge_key or tuple(range(len(table.columns))))
        op = change["op"]
        if op == TRUNCATE:
            self._found.clear()
        elif op == INSERT:
            self._add(tuple(change["values"]))
        elif op == SNAPSHOT:
            self._put(tuple(change["values"]), table)
        elif op == UPDATE:
            self._update(change, table)
        elif op == DELETE:
            self._remove(change["old"])

    def _update(self, change: Mapping[str, Any], table: TableVersion) -> None:
        values, old = list(change["values"]), change["old"]
        in_old = range(len(values)) if table.identity == "f" else table.merge_key
        unchanged = set(change["unchanged"] or ())
        for index in unchanged.intersection(in_old) if old is not None else ():
            values[index] = old[index]
        before = self._remove(values if old is None else old)
        for index in unchanged.difference(in_old):
            if before is None:
                raise TargetError(f"an UPDATE of {table.qualified} relies on a row that is not there")
            values[index] = before[index]
        self._put(tuple(values), table)

    def _put(self, row: Row, table: TableVersion) -> None:
        if table.merge_key:
            self._remove(row)
        self._add(row)

    def _add(self, row: Row) -> None:
        self._found.setdefault(self._key_of(row), []).append(row)

    def _remove(self, like: Sequence[str | None]) -> Row | None:
        rows = self._found.get(self._key_of(like))
        return rows.pop() if rows else None

    def _key_of(self, row: Sequence[str | None]) -> Row:
        return tuple(row[index] for index in self._key)

    def _find_by(self, key: tuple[int, ...]) -> None:
        if key != self._key:
            rows, self._key, self._found = self.rows, key, {}
            for row in rows:
                self._add(row + (None,) * (max(key) + 1 - len(row)))  # columns that were added since


class MemoryStore:
    """What memory sinks have written; shared by name inside a process so that others can look."""

    _stores: ClassVar[dict[str, MemoryStore]] = {}

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.batches: list[pa.Table] = []  # applied rows, in the envelope, in order
        self.tables: dict[str, TableState] = {}  # by schema.name
        self.progress: dict[str, str] = {}  # by pipeline
        self.epochs: dict[str, int] = {}  # by pipeline: how often it was opened

    @classmethod
    def named(cls, name: str) -> MemoryStore:
        """The store of that name, made when it is first asked for."""
        return cls._stores.setdefault(name, cls())

    @classmethod
    def forget(cls, name: str) -> None:
        """Drop a store."""
        cls._stores.pop(name, None)

    def rows(self) -> pa.Table:
        """Every row that was applied, in the envelope, in order."""
        with self.changed:
            return pa.concat_tables([ENVELOPE.empty_table(), *self.batches])

    def wait_for(self, reached: Callable[[MemoryStore], bool], timeout: float) -> bool:
        """Wait until a batch makes the condition true; False when it did not in ``timeout`` seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: reached(self), timeout)


class MemorySink:
    """Writes to a :class:`MemoryStore`. See the module's text for what it promises."""

    takes_chunks = True

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._pipeline = ""
        self._epoch = 0

    def open(self, context: SinkContext) -> str | None:
        """Take the store over for a pipeline."""
        with self._store.changed:
            self._pipeline = context.pipeline
            self._epoch = self._store.epochs.get(context.pipeline, 0) + 1
            self._store.epochs[context.pipeline] = self._epoch
            return self._store.progress.get(context.pipeline)

    def apply(self, batch: Batch) -> None:
        """Apply a batch and its progress."""
        # Everything that can fail on the way here has failed before the first row is applied.
        chunks = [(chunk, step.tables) for step in batch.steps for chunk in step.chunks()]
        with self._store.changed:
            if self._is_applied(batch):
                return
            for chunk, tables in chunks:
                self._apply_rows(chunk, tables)
                self._store.batches.append(chunk)
            for swap in batch.swaps:
                self._swap(swap)
            self._store.progress[self._pipeline] = batch.end
            self._store.changed.notify_all()

    def close(self) -> None:
        """Nothing to let go of: the store stays."""

    def twin(self) -> MemorySink:
        """Another one for the same store."""
        return MemorySink(self._store)

    def holds(self, table: TableVersion) -> bool:
        """Whether there is a table of that name."""
        return table.qualified in self._store.tables

    def tied_to(self, tables: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """None: nothing refers to anything."""
        return set()

    def make_beside(self, table: TableVersion, beside: TableVersion) -> None:
        """An empty table; what there was of that name is forgotten."""
        del table
        with self._store.changed:
            self._store.tables[beside.qualified] = TableState()

    def drop_beside(self, beside: TableVersion) -> None:
        """Remove such a table."""
        with self._store.changed:
            self._store.tables.pop(beside.qualified, None)

    def forget(self, pipeline: str) -> None:
        """Remove the progress of another pipeline."""
        with self._store.changed:
            self._store.progress.pop(pipeline, None)

    def _swap(self, swap: Swap) -> None:
        tables = self._store.tables
        tables[swap.table.qualified] = tables.pop(swap.beside.qualified, TableState())
        self._store.progress.pop(swap.pipeline, None)

    def _apply_rows(self, chunk: pa.Table, tables: Mapping[int, TableVersion]) -> None:
        for change in _records(chunk):
            if change["relation"] is not None:  # a message belongs to no table
                table = tables[change["relation"]]
                self._store.tables.setdefault(table.qualified, TableState()).apply(change, table)

    def _is_applied(self, batch: Batch) -> bool:
        """Whether the batch was applied before and its reply was lost."""
        held = self._store.progress.get(self._pipeline)
        if self._store.epochs.get(self._pipeline) == self._epoch and held in (batch.start, batch.end):
            return held == batch.end != batch.start
        raise TargetFencedError(
            f"another run of the pipeline {self._pipeline} writes to this store",
            remedy="Stop one of the two",
            pipeline=self._pipeline,
        )


def _records(chunk: pa.Table) -> Iterator[dict[str, Any]]:
    wanted = chunk.select(["op", "relation", "values", "old", "unchanged"])
    for batch in wanted.to_batches():
        yield from batch.to_pylist()


def _build(config: MemoryConfig) -> MemorySink:
    return MemorySink(MemoryStore.named(config.name))


KIND = SinkKind(
    name="memory",
    summary="keeps rows and tables in this process; for tests and for trying things out",
    form="tables",
    guarantee="exactly once",
    config=MemoryConfig,
    build=_build,
    example="memory:\n  name: default\n",
)
