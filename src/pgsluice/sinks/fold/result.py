"""What a fold gives to a sink that writes tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

COPY_AGAIN: Final = "Copy the table anew: pgsluice resync, with the name that it has in the source"
"""What to do when the target lacks a row that a change needs."""


@dataclass(frozen=True, slots=True)
class Patch:
    """
    Final rows that lack values: TOAST values that no change of the run brought.

    They stand in the row that the target holds under ``base`` before anything of the run is applied, so
    read them first, and stop if that row is not there: writing NULL would destroy them.
    """

    rows: pa.ListArray  # of text, NULL where the value is to be taken from the base row
    base: pa.Table  # k0, k1, …: the merge key of each row's base row
    missing: dict[int, pa.BooleanArray]  # by column index: which rows take this column from the base row


@dataclass(frozen=True, slots=True)
class Folded:
    """
    The net effect of a run of changes. Apply in this order:

    1. ``truncated``: remove all rows.
    2. ``patch``: read the missing values.
    3. ``delete``: remove those rows; it is no error if one is not there.
    4. ``insert`` the rows, and those of the completed patch.
    """

    truncated: bool
    delete: pa.Table | None  # k0, k1, …: text of the merge key; or of all columns, with ``copies``
    insert: pa.ListArray | pa.ChunkedArray | None  # of text: whole rows in the order of the columns
    patch: Patch | None = None
