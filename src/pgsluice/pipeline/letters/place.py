"""The place of a row in a batch, and a batch without some places."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection


class Place(NamedTuple):
    """A position, and which of the tables that share it (as those of one TRUNCATE do)."""

    commit_lsn: int
    seq: int
    relation: int


def places(rows: pa.Table) -> list[Place]:
    """Where rows stand."""
    columns = [rows[name].to_pylist() for name in Place._fields]
    return [Place(*row) for row in zip(*columns, strict=True)]


def without(rows: pa.Table, left_out: Collection[Place]) -> pa.Table:
    """The other rows, in order."""
    transactions = pa.array({place.commit_lsn for place in left_out}, pa.int64())
    suspects = pc.is_in(rows["commit_lsn"], transactions)
    if not pc.any(suspects).as_py():
        return rows
    kept = [place not in left_out for place in places(rows)]
    return rows.filter(pa.array(kept, pa.bool_()))
