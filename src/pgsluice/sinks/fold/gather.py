"""Gathering rows before they are folded: per table, in order, apart where a table's version changes."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pgsluice.schema.table import TableVersion


def gathered(
    chunks: Iterable[pa.Table], tables: Mapping[int, TableVersion], most_bytes: int
) -> Iterator[list[tuple[TableVersion, pa.Table]]]:
    """
    Rows as runs of one table version each, gathered to about so many bytes.

    Tables of a target have no constraints that are looked at between them, so only the order inside each
    table matters. Messages belong to no table and are left out.
    """
    runs: dict[str, list[tuple[int, list[pa.Table]]]] = {}
    size = 0
    for chunk in chunks:
        for relation, rows in _runs(chunk, tables):
            _add(runs.setdefault(tables[relation].qualified, []), relation, rows)
        size += chunk.nbytes
        if size >= most_bytes:
            yield _together(runs, tables)
            runs, size = {}, 0
    if runs:
        yield _together(runs, tables)


def _together(
    runs: dict[str, list[tuple[int, list[pa.Table]]]], tables: Mapping[int, TableVersion]
) -> list[tuple[TableVersion, pa.Table]]:
    return [
        (tables[relation], pa.concat_tables(parts)) for relation, parts in chain.from_iterable(runs.values())
    ]


def _add(runs: list[tuple[int, list[pa.Table]]], relation: int, rows: pa.Table) -> None:
    """Add rows to the last run of their table, or begin a new one: a version may come back."""
    if not runs or runs[-1][0] != relation:
        runs.append((relation, []))
    runs[-1][1].append(rows)


def _runs(chunk: pa.Table, tables: Mapping[int, TableVersion]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each table, apart where its version changes."""
    relations = chunk["relation"]
    versions: dict[str, list[int]] = {}
    for relation in pc.unique(relations).drop_null().to_pylist():
        versions.setdefault(tables[relation].qualified, []).append(relation)
    for found in versions.values():
        is_alone = len(versions) == 1 and relations.null_count == 0
        rows = chunk if is_alone else chunk.filter(pc.is_in(relations, pa.array(found, relations.type)))
        numbers = rows["relation"].to_numpy()
        cuts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        for start, end in pairwise([0, *cuts, len(numbers)]):
            yield int(numbers[start]), rows.slice(start, end - start)
