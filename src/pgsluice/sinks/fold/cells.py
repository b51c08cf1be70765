"""
The cells of a run of envelope rows, addressed by number instead of copied.

The text of ``values`` and of ``old`` is one array of cells; a row is where its cells begin. An unchanged
TOAST cell whose value stands in ``old`` (identity FULL, or a column of the key) points there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pgsluice.changelog.envelope import DELETE, UPDATE
from pgsluice.errors import TargetSchemaError

if TYPE_CHECKING:
    from pgsluice.schema.table import TableVersion

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


def contiguous(column: pa.ChunkedArray) -> Any:
    """A column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def operations(rows: pa.Table) -> Bytes:
    """The operation of each row as its ASCII code."""
    if rows.num_rows == 0:
        return np.empty(0, np.uint8)
    texts = contiguous(rows["op"])
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts)]
    return np.frombuffer(data, np.uint8)[starts]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a run of rows of one table version."""

    table: TableVersion
    ops: Bytes
    text: pa.StringArray  # all cells: those of ``values``, then those of ``old``
    new: Numbers  # per row: its first cell of ``values``
    old: Numbers  # per row: its first cell of ``old``
    has_old: Flags
    borrowed: dict[int, Flags]  # by column: rows whose new cell is the one of ``old``
    missing: dict[int, Flags]  # by column: rows whose new cell was not sent at all

    @property
    def has_new(self) -> Flags:
        """Which rows have new values: all but deletes."""
        return np.not_equal(self.ops, ord(DELETE))

    def column(self, index: int) -> Numbers:
        """Where each row has its new cell of a column."""
        cells = self.new + index
        if index in self.borrowed:
            cells = np.where(self.borrowed[index], self.old + index, cells)
        return cells


def read_cells(rows: pa.Table, ops: Bytes, table: TableVersion) -> Cells:
    """Address the cells of rows that all belong to one table version."""
    values, new = _flat(contiguous(rows["values"]))
    before, old = _flat(contiguous(rows["old"]))
    has_old = ~_nulls(contiguous(rows["old"]))
    unchanged = _unchanged(contiguous(rows["unchanged"]))
    borrowable = range(len(table.columns)) if table.identity == "f" else table.merge_key
    borrowed = {column: flags & has_old for column, flags in unchanged.items() if column in borrowable}
    missing = {
        column: flags & ~borrowed[column] if column in borrowed else flags
        for column, flags in unchanged.items()
    }
    _check_old(table, ops, has_old)
    return Cells(
        table=table,
        ops=ops,
        text=pa.concat_arrays([values, before]) if len(before) else values,
        new=new,
        old=old + len(values),
        has_old=has_old,
        borrowed={column: flags for column, flags in borrowed.items() if flags.any()},
        missing={column: flags for column, flags in missing.items() if flags.any()},
    )


def _flat(lists: pa.ListArray) -> tuple[pa.StringArray, Numbers]:
    offsets = np.asarray(lists.offsets).astype(np.int64)
    return lists.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets[:-1] - offsets[0]


def _nulls(array: pa.Array) -> Flags:
    return np.asarray(array.is_null())


def _unchanged(lists: pa.ListArray) -> dict[int, Flags]:
    columns, starts = _flat(lists)
    if len(columns) == 0:
        return {}
    numbers = np.asarray(columns)
    rows = np.searchsorted(starts, np.arange(len(numbers)), side="right") - 1
    return {int(column): _at(len(lists), rows[numbers == column]) for column in np.unique(numbers)}


def _at(length: int, places: npt.NDArray[np.intp]) -> Flags:
    flags = np.zeros(length, np.bool_)
    flags[places] = True
    return flags


def _check_old(table: TableVersion, ops: Bytes, has_old: Flags) -> None:
    needs_old = ops == ord(DELETE)
    if not table.merge_key:
        needs_old |= ops == ord(UPDATE)
    if (needs_old & ~has_old).any():
        raise TargetSchemaError(
            f"a change of {table.qualified} does not say which row it means",
            remedy="Give the table a usable replica identity, and copy it again",
            table=table.qualified,
        )
