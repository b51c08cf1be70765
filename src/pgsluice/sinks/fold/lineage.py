"""
Folding of tables with a merge key.

A *lineage* is one row on its way through the run, whatever its key becomes: an INSERT begins one, an
UPDATE goes on along it or begins one on top of the target's row of that key (its *base*), a change of the
key moves it, a DELETE ends it. For each column that may be unchanged TOAST the lineage remembers the last
change that set it. ``kernel`` has the compiled pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pgsluice.errors import RowRefusedError
from pgsluice.sinks.fold.kernel import NONE, Ints, trace
from pgsluice.sinks.fold.keys import encode, representatives
from pgsluice.sinks.fold.result import COPY_AGAIN, Folded, Patch

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgsluice.sinks.fold.cells import Cells, Flags


def fold_lineages(cells: Cells, values: pa.ListArray, *, truncated: bool) -> Folded:
    """Fold a run of rows after its last TRUNCATE; ``values`` is the rows' column of that name."""
    keys, new_codes, old_codes, count = _number_keys(cells)
    late = sorted(cells.missing)
    not_sent = _matrix([cells.missing[column] for column in late], len(cells.ops))
    touched, last_row, base, last_set = trace(cells.ops, new_codes, old_codes, not_sent, count, truncated)
    incomplete = (last_set == NONE).any(axis=1)
    if (incomplete & (base == NONE)).any():
        raise _no_base_row(cells)
    whole = ~incomplete
    return Folded(
        truncated,
        delete=None if truncated else _take_keys(keys, np.flatnonzero(touched)),
        insert=_whole_rows(cells, values, last_row[whole], last_set[whole], late),
        patch=_patch(cells, keys, last_row[incomplete], base[incomplete], last_set[incomplete], late),
    )


def _number_keys(cells: Cells) -> tuple[pa.Table, Ints, Ints, int]:
    """One key of each code, and for each row the code of its new and of its old key (or NONE)."""
    merge_key = cells.table.merge_key
    for index in merge_key:
        if index in cells.missing:
            raise RowRefusedError(
                f"an UPDATE of {cells.table.qualified} came without its key",
                remedy=COPY_AGAIN,
                table=cells.table.qualified,
            )
    has_new, has_old = np.flatnonzero(cells.has_new), np.flatnonzero(cells.has_old)
    columns = [
        cells.text.take(pa.array(np.concatenate([cells.column(i)[has_new], cells.old[has_old] + i])))
        for i in merge_key
    ]
    codes, count = encode(columns)
    new_codes = np.full(len(cells.ops), NONE, np.int32)
    old_codes = np.full(len(cells.ops), NONE, np.int32)
    new_codes[has_new] = codes[: len(has_new)]
    old_codes[has_old] = codes[len(has_new) :]
    one_of_each = pa.array(representatives(codes, count))
    keys = pa.table({f"k{i}": column.take(one_of_each) for i, column in enumerate(columns)})
    return keys, new_codes, old_codes, count


def _matrix(columns: list[Flags], height: int) -> npt.NDArray[np.bool_]:
    return np.stack(columns, axis=1) if columns else np.zeros((height, 0), np.bool_)


def _take_keys(keys: pa.Table, codes: npt.NDArray[np.intp]) -> pa.Table | None:
    return keys.take(pa.array(codes)) if len(codes) else None


def _whole_rows(
    cells: Cells, values: pa.ListArray, last_row: Ints, last_set: Ints, late: list[int]
) -> pa.ListArray | None:
    if len(last_row) == 0:
        return None
    if late or cells.borrowed:
        return _assembled(cells, last_row, last_set, late)
    if len(last_row) == len(values) and (np.diff(last_row) == 1).all():
        return values  # each row changed once: nothing to choose
    return values.take(pa.array(last_row))


def _assembled(cells: Cells, last_row: Ints, last_set: Ints, late: list[int]) -> pa.ListArray:
    """Rows with each column from the change that set it last; NULL where none did."""
    sources, absent = [], []
    for index in range(len(cells.table.columns)):
        row = last_set[:, late.index(index)] if index in late else last_row
        sources.append(cells.column(index)[row])
        absent.append(row == NONE)
    flat = pa.array(np.stack(sources, axis=1).ravel(), mask=np.stack(absent, axis=1).ravel())
    offsets = pa.array(np.arange(len(last_row) + 1, dtype=np.int32) * len(sources))
    return pa.ListArray.from_arrays(offsets, cells.text.take(flat))


def _patch(
    cells: Cells, keys: pa.Table, last_row: Ints, base: Ints, last_set: Ints, late: list[int]
) -> Patch | None:
    if len(last_row) == 0:
        return None
    missing = {column: pa.array(last_set[:, place] == NONE) for place, column in enumerate(late)}
    return Patch(_assembled(cells, last_row, last_set, late), keys.take(pa.array(base)), missing)


def _no_base_row(cells: Cells) -> RowRefusedError:
    return RowRefusedError(
        f"an UPDATE of {cells.table.qualified} left a large value unchanged in a row that is not there",
        remedy=COPY_AGAIN,
        table=cells.table.qualified,
    )
