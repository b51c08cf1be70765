"""Entries as lines of JSON: the events of :mod:`pgsluice.formats`, made by Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.formats.registry import events_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from pgsluice.formats.registry import EventFormat
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import DataStep
    from pgsluice.sinks.files.config import Compression

_EVENTS: Final = pa.schema(
    [
        pa.field("relation", pa.int32()),
        pa.field("commit_lsn", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("event", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class LinesForm:
    """Files with a line of JSON for each entry."""

    compression: Compression
    events: EventFormat

    @property
    def suffix(self) -> str:
        """With the ending by which readers know the compression."""
        return ".jsonl.gz" if self.compression == "gzip" else ".jsonl"

    def through(self, tables: Mapping[int, TableVersion]) -> Callable[[DataFrame], DataFrame]:
        """Entries become events."""
        return partial(events_in(self.events), tables=tables)

    def few(self, step: DataStep) -> Iterator[pa.RecordBatch]:
        """The events of a small step, without a job."""
        rows = self.through(step.tables)(step.frame()).collect()
        columns = zip(*rows, strict=True) if rows else ((),) * len(_EVENTS)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _EVENTS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_EVENTS)

    def write(self, path: str, rows: pa.Table, table: TableVersion | None) -> None:
        """Write the events, each with an end of line."""
        lines = pc.binary_join_element_wise(rows["event"].cast(pa.string()), "", "\n")
        with pa.output_stream(path, compression="gzip" if self.compression == "gzip" else None) as out:
            for chunk in lines.chunks:
                _, offsets, text = chunk.buffers()
                ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
                out.write(text.slice(int(ends[0]), int(ends[-1] - ends[0])))
