"""Lines of COPY's text format to entries of the envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pgsluice.changelog.envelope import DELETE, ENVELOPE, SNAPSHOT, TRUNCATE
from pgsluice.errors import DecodeError
from pgsluice.source.snapshot import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.source.snapshot.kernel import Bytes
    from pgsluice.source.snapshot.ranges import Copied


def entries(lines: Bytes, about: Copied, first: int) -> pa.RecordBatch:
    """The rows of whole lines; ``first`` is the number of the first one in its range."""
    rows, text_bytes = kernel.count_rows(lines, len(lines))
    cells = rows * about.columns
    ends = np.zeros(cells + 1, np.int32)
    there = np.ones(cells, np.uint8)
    text = np.empty(text_bytes, np.uint8)
    written = kernel.fill_cells(lines, len(lines), about.columns, kernel.unescaped(), ends, there, text)
    if written < 0:
        raise DecodeError(f"a copied row of {about.schema}.{about.table} has not {about.columns} values")
    values = pa.StringArray.from_buffers(
        cells,
        pa.py_buffer(ends),
        pa.py_buffer(text),
        None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little")),
    )
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * about.columns)
    lists = pa.ListArray.from_arrays(offsets, values).cast(ENVELOPE.field("values").type)
    return _envelope(about, SNAPSHOT, np.arange(first, first + rows), lists)


def emptied(about: Copied) -> pa.RecordBatch:
    """The entry that empties a table before it is copied again."""
    return _envelope(about, TRUNCATE, np.array([0]), pa.nulls(1, ENVELOPE.field("values").type))


def removed(about: Copied, places: Sequence[int], keys: Sequence[tuple[str, ...]]) -> pa.RecordBatch:
    """Entries that remove the rows of some keys."""
    rows = []
    for key in keys:
        row: list[str | None] = [None] * about.columns
        for place, value in zip(places, key, strict=True):
            row[place] = value
        rows.append(row)
    old = pa.array(rows, ENVELOPE.field("old").type)
    nothing = pa.nulls(len(keys), ENVELOPE.field("values").type)
    return _envelope(about, DELETE, np.arange(1, len(keys) + 1), nothing, old)


def _envelope(
    about: Copied, op: str, numbers: np.ndarray, values: pa.Array, old: pa.Array | None = None
) -> pa.RecordBatch:
    """Entries at the point of the copy, in the order of ranges and rows."""
    count = len(numbers)

    def same(value: Any, name: str) -> pa.Array:
        return pa.repeat(pa.scalar(value, ENVELOPE.field(name).type), count)

    arrays = {
        "commit_lsn": same(about.lsn, "commit_lsn"),
        "seq": pa.array(numbers + about.seq, pa.int64()),
        "end_lsn": same(about.lsn, "end_lsn"),
        "commit_ts": same(about.taken_at, "commit_ts"),
        "op": same(op, "op"),
        "relation": same(about.relation, "relation"),
        "schema": same(about.schema, "schema"),
        "table": same(about.table, "table"),
        "values": values,
        "old": pa.nulls(count, ENVELOPE.field("old").type) if old is None else old,
    }
    return pa.RecordBatch.from_arrays(
        [arrays[field.name] if field.name in arrays else pa.nulls(count, field.type) for field in ENVELOPE],
        schema=ENVELOPE,
    )
