"""
A batch of the log, as sinks see it, and the two ways of its rows.

A small batch is decoded on the driver: a Spark job would only pay for its scheduling. A large one is
decoded by tasks, one per range of the log. Both ways give the same rows in the same order; the chain
of modifiers is the same list of DataFrame functions in both.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.pipeline.staging import stage, staged_tables
from pgsluice.source.tasks import decode, envelope_frame, typed_range_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future

    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.modifiers.chain import Chain
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.source.relations import DecodableRange

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
    """The data of one slice of the log."""

    def __init__(
        self,
        parts: Sequence[DecodableRange],
        tables: Mapping[int, TableVersion],
        chain: Chain,
        spark: Callable[[], SparkSession],
        scratch: Path,
        *,
        small: bool,
    ) -> None:
        self._parts = parts
        self._tables = tables
        self._chain = chain
        self._spark = spark
        self._scratch = scratch
        self._ready: Future[_Staged] | None = None
        self.small = small

    @property
    def tables(self) -> Mapping[int, TableVersion]:
        """The versions that the rows' numbers name."""
        return self._tables

    def chunks(self) -> Iterator[pa.Table]:
        """The rows as Arrow tables on the driver, in order."""
        if self.small:
            yield (
                self._chain.apply_local(self._local, self._tables, self._spark)
                if self._chain
                else self._local
            )
            return
        ready, self._ready = self._ready, None
        staged = ready.result() if ready else self._stage()
        try:
            yield from staged_tables(staged.paths)
        finally:
            staged.remove()

    def make_ready(self, workers: Executor) -> None:
        """Let a worker begin with what the next call of :meth:`chunks` will give, unless one has begun."""
        if not self.small and self._ready is None:
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
            return _Staged(directory, stage(self._spark(), self._parts, self._chain, self._tables, directory))
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def frame(self) -> DataFrame:
        """The rows as a Spark frame."""
        spark = self._spark()
        frame: Any = spark.createDataFrame(self._local) if self.small else envelope_frame(spark, self._parts)
        return self._chain.apply(frame, self._tables)

    def typed(self, number: int, choices: SpecialValues, columns: Sequence[str]) -> DataFrame:
        """The rows of one table version with typed columns; without modifiers, its tasks type them."""
        version = self._tables[number]
        if self.small or self._chain:
            from pgsluice.schema.typed.spark_rows import typed_frame

            return typed_frame(self.frame(), version, choices).select(*columns)
        return typed_range_frame(self._spark(), self._parts, version, choices, columns)

    @cached_property
    def _local(self) -> pa.Table:
        return pa.Table.from_batches([decode(part) for part in self._parts], ENVELOPE)


class LogBatch:
    """Whole transactions of the log."""

    def __init__(self, start: str | None, end: str, steps: Sequence[LogStep]) -> None:
        self.start = start
        self.end = end
        self.steps = steps
