"""
Writing rows to files, inside a Spark task or on the driver: the same code for both.

Only plain data crosses to a task. It writes files under names of their own, syncs them and says what they
are; nothing else of a task's doing counts, so one that runs twice does no harm.

Rows are gathered up to ``file_bytes`` and then written as one file per table: that, the same once more while
they are typed, and the rows of one part bound the memory of a task.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.observability.failpoints import failpoint
from pgsluice.sinks.files.failures import translating
from pgsluice.sinks.files.names import STAGED
from pgsluice.sinks.fold.gather import gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import DataStep


class Form(Protocol):
    """One format of files. Plain data, which can be sent to a task."""

    @property
    def suffix(self) -> str:
        """How names of such files end."""
        ...

    def through(self, tables: Mapping[int, TableVersion]) -> Callable[[DataFrame], DataFrame] | None:
        """What Spark does with entries before they are written; None for nothing."""
        ...

    def few(self, step: DataStep) -> Iterator[pa.RecordBatch]:
        """The same rows of a small step, on the driver."""
        ...

    def write(self, path: str, rows: pa.Table, table: TableVersion | None) -> None:
        """Write rows of one table version, or messages, to a file."""
        ...


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that no manifest lists yet."""

    name: str  # in the staging directory
    table: int | None  # the version; None for messages
    rows: int
    bytes: int
    first: tuple[int, int]  # position of the first row
    last: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes the rows that a task is given; called with the task's number, gives its files as text."""

    root: str  # for messages
    directory: str
    form: Form
    tables: Mapping[int, TableVersion]
    file_bytes: int

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> str:
        """Write, and say what was written."""
        written = json.dumps([asdict(file) for file in self._write_all(batches)])
        failpoint("task.after_write")
        return written

    def _write_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[StagedFile]:
        messages: list[pa.Table] = []

        def chunks() -> Iterator[pa.Table]:
            for batch in batches:
                chunk = pa.Table.from_batches([batch])
                if chunk["relation"].null_count:
                    messages.append(chunk.filter(pc.is_null(chunk["relation"])))
                yield chunk

        for runs in gathered(chunks(), self.tables, self.file_bytes):
            for table, rows in runs:
                yield self._write(rows, table)
            yield from self._write_messages(messages)
        yield from self._write_messages(messages)

    def _write_messages(self, messages: list[pa.Table]) -> Iterator[StagedFile]:
        if messages:
            yield self._write(pa.concat_tables(messages), None)
            messages.clear()

    def _write(self, rows: pa.Table, table: TableVersion | None) -> StagedFile:
        name = f"{uuid.uuid4().hex}{STAGED}"
        path = f"{self.directory}/{name}"
        with translating(self.root):
            self.form.write(path, rows, table)
            size = _synced(path)
        return StagedFile(
            name,
            None if table is None else table.id,
            rows.num_rows,
            size,
            _position(rows, 0),
            _position(rows, rows.num_rows - 1),
        )


def staged_files(results: Iterable[str]) -> Iterator[StagedFile]:
    """What tasks have written, from what they gave."""
    for result in results:
        for fields in json.loads(result):
            yield StagedFile(**{**fields, "first": tuple(fields["first"]), "last": tuple(fields["last"])})


def _synced(path: str) -> int:
    """Make a file durable; gives its size."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _position(rows: pa.Table, row: int) -> tuple[int, int]:
    return rows["commit_lsn"][row].as_py(), rows["seq"][row].as_py()
