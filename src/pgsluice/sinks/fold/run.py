"""The way into folding: what needs no folding at all, what a TRUNCATE cuts off, and who folds the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.changelog.envelope import DELETE, INSERT, SNAPSHOT, TRUNCATE, UPDATE
from pgsluice.errors import TargetSchemaError
from pgsluice.sinks.fold.cells import Bytes, contiguous, operations, read_cells
from pgsluice.sinks.fold.copies import fold_copies
from pgsluice.sinks.fold.lineage import fold_lineages
from pgsluice.sinks.fold.result import Folded

if TYPE_CHECKING:
    import pyarrow as pa

    from pgsluice.schema.table import TableVersion

_ROW_OPERATIONS: Final = [ord(op) for op in (INSERT, UPDATE, DELETE, SNAPSHOT)]


def fold(rows: pa.Table, table: TableVersion, *, replace: bool | None = None) -> Folded:
    """
    Fold envelope rows of one table version, in their order, to their net effect.

    An UPDATE without old tuple did not change its key. A snapshot row replaces a row of its key. INSERTs
    are taken at their word: their key is not in the target, so nothing is deleted for them. With ``replace``
    both replace a row of their key, or neither does.
    """
    ops = operations(rows)
    if replace is not None:
        is_new = (ops == ord(INSERT)) | (ops == ord(SNAPSHOT))
        ops = np.where(is_new, np.uint8(ord(SNAPSHOT if replace else INSERT)), ops)
    truncates = np.flatnonzero(ops == ord(TRUNCATE))
    truncated = len(truncates) > 0
    if truncated:
        rows, ops = rows.slice(truncates[-1] + 1), ops[truncates[-1] + 1 :]
    if len(ops) == 0:
        return Folded(truncated, delete=None, insert=None)
    if _only_appends(ops, table):
        return Folded(truncated, delete=None, insert=rows["values"])
    cells = read_cells(rows, ops, table)
    if table.merge_key:
        return fold_lineages(cells, contiguous(rows["values"]), truncated=truncated)
    return fold_copies(cells, truncated=truncated)


def _only_appends(ops: Bytes, table: TableVersion) -> bool:
    if (ops == ord(INSERT)).all():
        return True
    if not np.isin(ops, _ROW_OPERATIONS).all():
        raise TargetSchemaError(f"the rows of {table.qualified} have an operation that changes no row")
    if table.merge_key:
        return False
    changes = ((ops == ord(UPDATE)) | (ops == ord(DELETE))).any()
    if changes and table.identity != "f":
        raise TargetSchemaError(
            f"{table.qualified} has no replica identity, so its UPDATEs and DELETEs can't be applied",
            remedy="Give it a primary key or REPLICA IDENTITY FULL, and copy it again",
            table=table.qualified,
        )
    return not changes
