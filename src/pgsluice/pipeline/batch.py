"""
A batch of the log or of a copy, as sinks see it, and the ways of its rows.

A small batch is read on the driver: a Spark job would only pay for its scheduling. A large one is
read by tasks, part by part; or, where no modifier has to see its rows and tasks would only bring them back
to this machine, by the driver too. All ways give the same rows in the same order; the chain of modifiers is
the same list of DataFrame functions everywhere.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pgsluice.changelog.envelope import ENVELOPE, in_envelope
from pgsluice.modifiers.chain import Modification
from pgsluice.pipeline.letters.place import without
from pgsluice.pipeline.session import error_of_job
from pgsluice.pipeline.staging import stage, staged_tables
from pgsluice.pipeline.unidentified import Unidentified
from pgsluice.source.tasks import (
    envelope_frame,
    for_each,
    typed_part_frame,
    work_in_tasks,
    work_on_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future

    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.pipeline.letters.place import Place
    from pgsluice.schema.entry import SchemaEntry
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.sinks.base import RawRange, Swap
    from pgsluice.source.tasks import Part

SMALL_BYTES: Final = 256 << 10  # of log; measured: below it a Spark job costs more than it saves

_PREFIX: Final = "batch-"


def remove_leftovers(scratch: Path) -> None:
    """Remove the files of steps whose process was killed; only while no run uses the directory."""
    for directory in scratch.glob(f"{_PREFIX}*"):
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Staged:
    """Files with the rows of a step."""

    directory: Path
    paths: list[Path]

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class LogStep:
    """The data of one slice of the log, or of some ranges of tables."""

    entry: SchemaEntry | None = None  # rows only

    def __init__(
        self,
        parts: Sequence[Part],
        tables: Mapping[int, TableVersion],
        modification: Modification,
        spark: Callable[[], SparkSession],
        scratch: Path,
        *,
        small: bool,
        on_driver: bool = False,
    ) -> None:
        self._parts = parts
        self._tables = tables
        self._modification = modification
        self._spark = spark
        self._scratch = scratch
        self._ready: Future[_Staged] | None = None
        self._on_driver = on_driver  # how chunks() reads a batch that is not small
        self.small = small
        self.left_out: frozenset[Place] = frozenset()  # rows that :meth:`chunks` does not give

    @property
    def tables(self) -> Mapping[int, TableVersion]:
        """The versions that the rows' numbers name."""
        return self._tables

    @property
    def ranges(self) -> Sequence[RawRange]:
        """Rows as COPY's text; changes have none."""
        return ()

    def each_range(self, work: Callable[[RawRange], int]) -> list[int]:
        """Call ``work`` for each of ``ranges``, in tasks; what it gives, in their order."""
        ranges = self.ranges
        if self.small:
            return list(map(work, ranges))
        with errors_of_jobs():
            return for_each(self._spark(), ranges, work)

    def in_tasks(
        self,
        work: Callable[[int, Iterator[pa.RecordBatch]], str],
        through: Callable[[DataFrame], DataFrame] | None = None,
    ) -> list[str]:
        """Call ``work`` in tasks; in the same hop that reads the rows, where nothing has to change them."""
        with errors_of_jobs():
            if through is not None:
                return work_on_partitions(through(self.frame()), work)
            if self._modification or self.small:
                return work_on_partitions(
                    self.frame(), lambda number, batches: work(number, map(in_envelope, batches))
                )
            return work_in_tasks(self._spark(), self._parts, work)

    def chunks(self) -> Iterator[pa.Table]:
        """The rows as Arrow tables on the driver, in order; without those that are left out."""
        for chunk in self._chunks():
            yield without(chunk, self.left_out) if self.left_out else chunk

    def _chunks(self) -> Iterator[pa.Table]:
        if self.small:
            with errors_of_jobs():
                yield self._modification.apply_local(self._local, self._spark)
            return
        if self._on_driver:
            yield from decoded(self._parts)
            return
        ready, self._ready = self._ready, None
        staged = ready.result() if ready else self._stage()
        try:
            yield from staged_tables(staged.paths)
        finally:
            staged.remove()

    def make_ready(self, workers: Executor) -> None:
        """Let a worker begin with what the next call of :meth:`chunks` will give, unless one has begun."""
        if not (self.small or self._on_driver) and self._ready is None:
            self._ready = workers.submit(self._stage)

    def discard(self) -> None:
        """Remove what was made ready and nobody took."""
        ready, self._ready = self._ready, None
        if ready is not None:
            with suppress(Exception):  # it left nothing, then
                ready.result().remove()

    def _stage(self) -> _Staged:
        """The large way: tasks decode, modify and leave files; only what finished tasks name is read."""
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._scratch))
        try:
            with errors_of_jobs():
                paths = stage(self._spark(), self._parts, self._modification, directory)
            return _Staged(directory, paths)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def frame(self) -> DataFrame:
        """The rows as a Spark frame."""
        spark = self._spark()
        if self.small:
            return self._modification.local_frame(self._local, lambda: spark)
        return self._modification.apply(envelope_frame(spark, self._parts))

    def without_identity(self) -> Unidentified | None:
        """Rows of tables without identity that the last reading had; only once they were read."""
        injection = self._modification.injection
        return Unidentified(injection.counted(), dropped=injection.drops) if injection else None

    def typed(self, number: int, choices: SpecialValues, columns: Sequence[str]) -> DataFrame:
        """The rows of one table version with typed columns; without modifiers, its tasks type them."""
        version = self._tables[number]
        if self.small or self._modification:
            from pgsluice.schema.typed.spark_rows import typed_frame

            return typed_frame(self.frame(), version, choices).select(*columns)
        return typed_part_frame(self._spark(), self._parts, version, choices, columns)

    @cached_property
    def _local(self) -> pa.Table:
        found = [rows for part in self._parts for rows in part.rows()]
        return pa.Table.from_batches(found, ENVELOPE) if found else ENVELOPE.empty_table()


def decoded(parts: Sequence[Part]) -> Iterator[pa.Table]:
    """The rows of parts, read here and now, a batch at a time."""
    for part in parts:
        for rows in part.rows():
            yield pa.Table.from_batches([rows])


@contextmanager
def errors_of_jobs() -> Iterator[None]:
    """What tasks and expressions raise becomes an error of ours, where it is one."""
    try:
        yield
    except Exception as exc:
        error = error_of_job(exc)
        if error is None:
            raise  # with its own cause
        raise error from exc


class SchemaStep(LogStep):
    """One change of the schema; it has no rows."""

    def __init__(self, entry: SchemaEntry, spark: Callable[[], SparkSession], scratch: Path) -> None:
        super().__init__((), {}, Modification(), spark, scratch, small=True)
        self.entry = entry


class LogBatch:
    """Whole transactions of the log."""

    def __init__(
        self,
        start: str | None,
        end: str,
        steps: Sequence[LogStep],
        swaps: Sequence[Swap] = (),
        *,
        held: Collection[int] = (),
    ) -> None:
        self.start = start
        self.end = end
        self.steps = steps
        self.swaps = swaps
        self.held = held
