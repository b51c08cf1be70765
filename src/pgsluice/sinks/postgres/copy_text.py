"""Rows of text cells as the text format of COPY, in pieces of a bounded size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from pgsluice.sinks.postgres import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PIECE_BYTES: Final = 4 << 20  # of cells at a time; a single larger row is a piece of its own


def rows_of(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.ListArray:
    """Columns of text put together to rows."""
    height, width = len(columns[0]), len(columns)
    flat = pa.concat_arrays(
        [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    )
    order = np.arange(height * width).reshape(width, height).T.ravel()
    offsets = pa.array(np.arange(height + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(offsets, flat.take(pa.array(order)))


def copy_text(rows: pa.ListArray | pa.ChunkedArray, columns: Sequence[int]) -> Iterator[memoryview]:
    """The chosen cells of each row, as COPY reads them."""
    chunks = rows.chunks if isinstance(rows, pa.ChunkedArray) else [rows]
    chosen = np.array(columns, np.int64)
    for chunk in chunks:
        yield from _pieces(chunk, chosen)


def _pieces(rows: pa.ListArray, columns: np.ndarray) -> Iterator[memoryview]:
    if len(rows) == 0:
        return
    cells = rows.values
    starts = np.asarray(rows.offsets)[:-1].astype(np.int64)
    offsets, data = _text(cells)
    valid = np.asarray(cells.is_valid())
    ends = offsets[np.asarray(rows.offsets)[1:]].astype(np.int64)  # of each row's bytes
    begin = 0
    while begin < len(starts):
        start = offsets[starts[begin]]
        end = max(begin + 1, int(np.searchsorted(ends, start + PIECE_BYTES, "right")))
        piece = starts[begin:end]
        plain = kernel.specials(data, start, ends[end - 1]) == 0
        out = np.empty(kernel.size(piece, columns, offsets, data, valid, plain), np.uint8)
        kernel.fill(piece, columns, offsets, data, valid, plain, out)
        yield out.data
        begin = end


def _text(cells: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    _, offsets, data = cells.buffers()
    found = np.frombuffer(offsets, np.int32)[cells.offset : cells.offset + len(cells) + 1]
    return found, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
