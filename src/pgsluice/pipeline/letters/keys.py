"""
The keys by which later changes of a refused row are found: its merge key, or the whole row without one.

Keys are compared as the text that the stream has, which is that of the stored value: it stays the same from
change to change.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pgsluice.changelog.envelope import TRUNCATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgsluice.schema.table import TableVersion


def key_places(version: TableVersion) -> Sequence[int]:
    """The columns of the key, by number."""
    return version.merge_key or range(len(version.columns))


def key_columns(version: TableVersion) -> tuple[str, ...]:
    """The columns of the key, by name."""
    return tuple(version.columns[index].name for index in key_places(version))


def row_keys(row: Mapping[str, Any], version: TableVersion) -> tuple[str, ...]:
    """The keys of a row before and after a change; none for a change of all rows."""
    if row["op"] == TRUNCATE:
        return ()
    old = row["old"]
    found = [] if old is None else [_key(old, version)]
    if row["values"] is not None:
        values = list(row["values"])
        for index in row["unchanged"] or () if old is not None else ():
            values[index] = old[index]
        found.append(_key(values, version))
    return tuple(dict.fromkeys(found))


def first_cell(key: str) -> str | None:
    """The first column of a key."""
    cells = json.loads(key)
    return cells[0] if cells else None


def _key(cells: Sequence[str | None], version: TableVersion) -> str:
    return json.dumps([cells[index] for index in key_places(version)], ensure_ascii=False)
