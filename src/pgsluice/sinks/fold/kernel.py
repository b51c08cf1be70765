"""The compiled pass of ``lineage``: follows every row of the target through a run of changes."""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
import numpy.typing as npt

NONE: Final = -1

_INSERT: Final = ord("I")
_UPDATE: Final = ord("U")
_DELETE: Final = ord("D")
_SNAPSHOT: Final = ord("S")

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@numba.njit(cache=True)
def trace(
    ops: npt.NDArray[np.uint8], new: Ints, old: Ints, not_sent: Flags, count: int, no_bases: bool
) -> tuple[Flags, Ints, Ints, Any]:
    """
    Follow the rows.

    Args:
        ops: The operation of each change: I, U, D or S.
        new: The code of its new key.
        old: The code of its old key, or NONE.
        not_sent: For each change and each column that is ever unchanged: whether it was not sent.
        count: How many codes there are.
        no_bases: Whether the target holds no row that could be a base.

    Returns:
        Which keys' rows of the target are gone or replaced; and of each row that is alive at the end the
        last change, the code of its base row or NONE, and for each of those columns the change that set
        it last, or NONE.
    """
    columns = not_sent.shape[1]
    touched = np.full(count, no_bases, np.bool_)
    current = np.full(count, NONE, np.int32)  # by key code: the lineage that has this key now
    last_row = np.empty(len(ops), np.int32)
    base = np.empty(len(ops), np.int32)
    last_set = np.empty((len(ops), columns), np.int32)
    alive = np.zeros(len(ops), np.bool_)
    lineages = 0
    for row in range(len(ops)):
        op = ops[row]
        if op == _DELETE:
            key = old[row]
            if current[key] != NONE:
                alive[current[key]] = False
                current[key] = NONE
            touched[key] = True
            continue
        key = new[row]
        lineage = NONE
        if op == _UPDATE:
            source = old[row] if old[row] != NONE else key
            lineage = current[source]
            if lineage == NONE:
                lineage = lineages
                lineages += 1
                base[lineage] = NONE if touched[source] else source
                last_set[lineage, :] = NONE
            current[source] = NONE
            touched[source] = True
            touched[key] = True
        else:
            lineage = lineages
            lineages += 1
            base[lineage] = NONE
            touched[key] |= op == _SNAPSHOT
        if current[key] != NONE:
            alive[current[key]] = False
        current[key] = lineage
        alive[lineage] = True
        last_row[lineage] = row
        for column in range(columns):
            if not not_sent[row, column]:
                last_set[lineage, column] = row
    living = np.flatnonzero(alive[:lineages])
    return touched, last_row[living], base[living], last_set[living]
