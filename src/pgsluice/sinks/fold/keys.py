"""
Keys as numbers: equal keys get equal codes, and only they.

Column by column, and pairs of codes are numbered again: no separator that a value could contain, and
NULL is a value of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

Codes = npt.NDArray[np.int32]


def encode(columns: Sequence[pa.Array]) -> tuple[Codes, int]:
    """The code of each key, from 0 and without holes, and how many there are."""
    codes, count = _number(columns[0])
    for column in columns[1:]:
        further, width = _number(column)
        codes, count = _number(pa.array(codes.astype(np.int64) * width + further))
    return codes, count


def _number(array: pa.Array) -> tuple[Codes, int]:
    encoded = array.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices), max(1, len(encoded.dictionary))


def representatives(codes: Codes, count: int) -> npt.NDArray[np.int64]:
    """For each code one place where it stands."""
    places = np.zeros(count, np.int64)
    places[codes] = np.arange(len(codes))
    return places
