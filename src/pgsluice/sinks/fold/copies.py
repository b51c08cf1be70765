"""
Folding of tables without a key under REPLICA IDENTITY FULL: rows are found by all their values.

Equal rows can't be told apart, so all that counts is how many copies of a row came and how many went.
Values are compared as text, NULL being equal to NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pgsluice.changelog.envelope import DELETE, UPDATE
from pgsluice.errors import RowRefusedError
from pgsluice.sinks.fold.keys import encode, representatives
from pgsluice.sinks.fold.result import COPY_AGAIN, Folded

if TYPE_CHECKING:
    from pgsluice.sinks.fold.cells import Cells, Numbers


def fold_copies(cells: Cells, *, truncated: bool) -> Folded:
    """Fold a run of rows after its last TRUNCATE."""
    if cells.missing:
        raise RowRefusedError(
            f"an UPDATE of {cells.table.qualified} lacks a value that its old row should have",
            remedy=COPY_AGAIN,
            table=cells.table.qualified,
        )
    came = np.flatnonzero(cells.has_new)
    went = np.flatnonzero((cells.ops == ord(DELETE)) | (cells.ops == ord(UPDATE)))
    places = [
        np.concatenate([cells.column(index)[came], cells.old[went] + index])
        for index in range(len(cells.table.columns))
    ]
    if places:
        codes, count = encode([cells.text.take(pa.array(column)) for column in places])
    else:  # a table without columns: its rows are all equal
        codes, count = np.zeros(len(came) + len(went), np.int32), 1
    net = np.bincount(codes[: len(came)], minlength=count) - np.bincount(codes[len(came) :], minlength=count)
    one_of_each = representatives(codes, count)
    return Folded(
        truncated,
        delete=None if truncated else _to_delete(cells, places, one_of_each, net),
        insert=_to_insert(cells, places, np.repeat(one_of_each, np.maximum(net, 0))),
    )


def _to_delete(cells: Cells, places: list[Numbers], one_of_each: Numbers, net: Numbers) -> pa.Table | None:
    gone = np.flatnonzero(net < 0)
    if len(gone) == 0:
        return None
    chosen = one_of_each[gone]
    columns = {f"k{i}": cells.text.take(pa.array(column[chosen])) for i, column in enumerate(places)}
    return pa.table({**columns, "copies": pa.array(-net[gone])})


def _to_insert(cells: Cells, places: list[Numbers], chosen: Numbers) -> pa.ListArray | None:
    if len(chosen) == 0:
        return None
    flat = np.stack([column[chosen] for column in places], axis=1).ravel() if places else chosen[:0]
    offsets = pa.array(np.arange(len(chosen) + 1, dtype=np.int32) * len(places))
    return pa.ListArray.from_arrays(offsets, cells.text.take(pa.array(flat)))
