"""
Batches made by hand, for testing sinks without a source.

    items = table("public.items", {"id": "int8", "body": "text"}, key=["id"])
    changes = Changes()
    changes.insert(items, "1", "first")
    changes.update(items, "1", UNCHANGED)
    changes.commit()
    sink.apply(changes.batch(start=None, end="one"))

Values are PostgreSQL's text. Neighbours: :mod:`pgsluice.sinks.base` is the contract that these batches
follow, :mod:`pgsluice.changelog.envelope` the form of their rows.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.changelog.envelope import DELETE, ENVELOPE, INSERT, MESSAGE, SNAPSHOT, TRUNCATE, UPDATE
from pgsluice.schema.table import Column, Identity, PgType, TableVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from pgsluice.schema.entry import SchemaEntry
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.sinks.base import RawRange, Swap


class Unchanged(Enum):
    """The type of :data:`UNCHANGED`."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
"""Stands for a TOAST value that an UPDATE did not touch and the stream therefore did not send."""

Value = str | None | Unchanged
"""A cell as a test writes it."""

_FIRST_COMMIT: Final = dt.datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
_COMMIT_SPACING: Final = 0x100


def table(
    qualified: str | tuple[str, str],
    columns: Mapping[str, str | PgType],
    *,
    key: Sequence[str] = (),
    identity: Identity = "d",
    primary_key: Sequence[str] | None = None,
    version: int = 1,
) -> TableVersion:
    """
    A table version.

    Args:
        qualified: ``schema.name``, or both as a pair.
        columns: Names with their types; a text is the name of a built-in type, ``int4[]`` an array.
        key: The columns of the replica identity; with FULL all columns are in it, and this is ignored.
        identity: The replica identity.
        primary_key: When it differs from ``key``.
        version: The ``relation`` number that rows carry; give each table of a batch its own.
    """
    schema, table_name = qualified.split(".") if isinstance(qualified, str) else qualified
    return TableVersion(
        id=version,
        relid=16_000 + version,
        schema=schema,
        name=table_name,
        identity=identity,
        columns=tuple(
            Column(name, _pg_type(kind), identity == "f" or name in key) for name, kind in columns.items()
        ),
        naming=tuple(key if primary_key is None else primary_key),
    )


def _pg_type(kind: str | PgType) -> PgType:
    if isinstance(kind, PgType):
        return kind
    if kind.endswith("[]"):
        element = _pg_type(kind[:-2])
        return PgType(0, "_" + element.name, kind="array", element=element)
    return PgType(0, kind)


@dataclass(frozen=True, slots=True)
class LocalStep:
    """A step whose rows are in memory."""

    tables: Mapping[int, TableVersion]
    rows: pa.Table  # in the envelope
    chunk_rows: int = 65_536
    small: bool = True
    entry: SchemaEntry | None = None

    def chunks(self) -> Iterator[pa.Table]:
        """The rows, cut into tables of ``chunk_rows``."""
        for start in range(0, self.rows.num_rows, self.chunk_rows):
            yield self.rows.slice(start, self.chunk_rows)

    @property
    def ranges(self) -> Sequence[RawRange]:
        """None: these are entries."""
        return ()

    def each_range(self, work: Callable[[RawRange], int]) -> int:
        """Nothing to call it for."""
        return 0

    def in_tasks(
        self,
        work: Callable[[int, Iterator[pa.RecordBatch]], str],
        through: Callable[[DataFrame], DataFrame] | None = None,
    ) -> list[str]:
        """Call ``work`` here, once, with all rows."""
        rows = through(self.frame()).toArrow() if through else self.rows
        return [work(0, iter(rows.to_batches(self.chunk_rows)))]

    def frame(self) -> DataFrame:
        """The rows as a frame of the active Spark session."""
        from pyspark.sql import SparkSession

        from pgsluice.changelog.envelope import SPARK_ENVELOPE

        return SparkSession.builder.getOrCreate().createDataFrame(self.rows, schema=SPARK_ENVELOPE)

    def typed(self, number: int, choices: SpecialValues, columns: Sequence[str]) -> DataFrame:
        """The rows of one table version with typed columns."""
        from pgsluice.schema.typed.spark_rows import typed_frame

        return typed_frame(self.frame(), self.tables[number], choices).select(*columns)


@dataclass(frozen=True, slots=True)
class LocalBatch:
    """A batch whose steps are at hand."""

    start: str | None
    end: str
    steps: Sequence[LocalStep] = ()
    swaps: Sequence[Swap] = ()
    held: Collection[int] = ()


@dataclass(slots=True)
class Changes:
    """Collects changes in order and numbers them the way the stream does."""

    _rows: list[dict[str, Any]] = field(default_factory=list)
    _tables: dict[int, TableVersion] = field(default_factory=dict)
    _transaction: int = 1
    _seq: int = 0

    def insert(self, into: TableVersion, *values: Value) -> None:
        """A new row."""
        self._add(INSERT, into, values=values)

    def snapshot(self, into: TableVersion, *values: Value) -> None:
        """A row that was copied."""
        self._add(SNAPSHOT, into, values=values)

    def update(self, of: TableVersion, *values: Value, old: Sequence[str | None] | None = None) -> None:
        """A changed row; ``old`` as the stream has it: the old key, the old row, or nothing."""
        self._add(UPDATE, of, values=values, old=old)

    def delete(self, of: TableVersion, *old: str | None) -> None:
        """A row that is gone: its key with NULL elsewhere, or all of it."""
        self._add(DELETE, of, old=old)

    def truncate(self, *tables: TableVersion) -> None:
        """One TRUNCATE of these tables: a row for each, all at one position."""
        self._seq += 1
        for emptied in tables:
            self._append(TRUNCATE, emptied)

    def message(self, prefix: str, content: str) -> None:
        """A logical message."""
        self._seq += 1
        self._append(MESSAGE, None, prefix=prefix, content=content)

    def commit(self) -> None:
        """End the transaction; what follows belongs to the next one."""
        self._transaction += 1
        self._seq = 0

    def rows(self) -> pa.Table:
        """Everything so far, in the envelope."""
        return pa.Table.from_pylist(self._rows, schema=ENVELOPE)

    def step(self, *, chunk_rows: int = 65_536) -> LocalStep:
        """Everything so far as one step."""
        return LocalStep(dict(self._tables), self.rows(), chunk_rows)

    def batch(self, *, start: str | None, end: str, chunk_rows: int = 65_536) -> LocalBatch:
        """Everything so far as one batch of one step."""
        return LocalBatch(start, end, [self.step(chunk_rows=chunk_rows)])

    def _add(self, op: str, table: TableVersion, **row: Any) -> None:
        for cells in row.values():
            if cells is not None and len(cells) != len(table.columns):
                message = f"{table.qualified} has {len(table.columns)} columns, not {len(cells)}"
                raise ValueError(message)
        values = row.pop("values", None)
        self._seq += 1
        self._append(
            op,
            table,
            values=values and [None if value is UNCHANGED else value for value in values],
            unchanged=[i for i, value in enumerate(values or ()) if value is UNCHANGED],
            **row,
        )

    def _append(self, op: str, table: TableVersion | None, **row: Any) -> None:
        commit_lsn = self._transaction * _COMMIT_SPACING
        if table is not None:
            self._tables[table.id] = table
            row |= {"relation": table.id, "schema": table.schema, "table": table.name}
        self._rows.append(
            {
                "commit_lsn": commit_lsn,
                "seq": self._seq,
                "end_lsn": commit_lsn + _COMMIT_SPACING // 2,
                "xid": 700 + self._transaction,
                "commit_ts": _FIRST_COMMIT + dt.timedelta(seconds=self._transaction),
                "op": op,
                **row,
            }
        )
