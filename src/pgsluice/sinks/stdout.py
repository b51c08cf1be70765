"""
The stdout sink: one line of JSON per change, in order.

Neighbours: :mod:`pgsluice.formats` makes the lines; this module writes them.

Unit of parallelism: lines are made by executors when a batch is large, and written by the driver, which
holds those of one batch. Guarantee: at least once; the pipeline keeps the progress, since standard output
can't. On replay: the lines of an unfinished batch are written again; ``lsn`` and ``seq`` are the same.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field

from pgsluice.errors import OutputClosedError
from pgsluice.formats.registry import PGSTREAM, EventFormat, events_in
from pgsluice.sinks.base import SinkKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.formats.registry import Events
    from pgsluice.sinks.base import Batch, DataStep, SinkContext


class StdoutConfig(BaseModel):
    """Options of the stdout sink."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: EventFormat = Field(PGSTREAM, description="The shape of the lines")
    schema_changes: Literal["pass", "ignore"] = Field(
        "pass",
        description="Changes of the source's schema: lines of the table pgsluice.schema_log, or nothing",
    )


class StdoutSink:
    """Writes lines. See the module's text for what it promises."""

    keeps_progress = False
    takes_identity = True

    def __init__(
        self,
        output: BinaryIO | None = None,
        *,
        schema_changes: Literal["pass", "ignore"] = "pass",
        format: EventFormat = PGSTREAM,  # noqa: A002 - as the option is called
    ) -> None:
        self._output = output if output is not None else sys.stdout.buffer
        self._events = events_in(format)
        self.schema_changes = schema_changes

    def open(self, context: SinkContext) -> str | None:
        """Nothing is known of what was written before."""
        return None

    def apply(self, batch: Batch) -> None:
        """Write the lines of a batch and flush them."""
        try:
            for step in batch.steps:
                for line in _lines(step, self._events):
                    self._output.write(line.encode() + b"\n")
            self._output.flush()
        except BrokenPipeError as error:
            self._write_nowhere()
            raise OutputClosedError("whoever read the output has stopped reading") from error

    def close(self) -> None:
        """Standard output stays open: it isn't ours."""

    def _write_nowhere(self) -> None:
        """Give the rest of the buffer to the null device, or Python complains about it at its end."""
        try:
            descriptor = self._output.fileno()
        except OSError:
            return  # not a file of the operating system
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _lines(step: DataStep, events: Events) -> Iterator[str]:
    lines = events(step.frame(), step.tables).select("event")
    if step.small:
        yield from (row[0] for row in lines.collect())
        return
    # Not toLocalIterator: Spark's JVM keeps all that went through one, until its memory is full.
    for chunk in lines.toArrow()["event"].iterchunks():
        yield from chunk.to_pylist()


def _build(config: StdoutConfig) -> StdoutSink:
    return StdoutSink(schema_changes=config.schema_changes, format=config.format)


KIND = SinkKind(
    name="stdout",
    summary="lines of JSON on standard output, in the shape of pgstream's or wal2json's events",
    form="lines",
    guarantee="at least once",
    config=StdoutConfig,
    build=_build,
    example="stdout: {}\n",
)
