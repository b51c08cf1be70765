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
    chunks: Iterable[pa.Table],
    tables: Mapping[int, TableVersion],
    most_bytes: int,
    *,
    one_version: bool = False,
) -> Iterator[list[tuple[TableVersion, pa.Table]]]:
    """
    Rows as runs of one table version each, gathered to about so many bytes.

    Where a target has no constraints that are looked at between tables, only the order inside each table
    matters; else ``one_version`` gathers until a table changes, so that all tables go on at the same pace.
    Messages belong to no table and are left out.
    """
    runs: dict[str, list[tuple[int, list[pa.Table]]]] = {}
    size = 0
    known: dict[str, int] = {}
    for chunk in chunks:
        for place, piece in enumerate(_cut(chunk, tables, known) if one_version else (chunk,)):
            if place > 0 and runs:
                yield _together(runs, tables)
                runs, size = {}, 0
            for relation, rows in _runs(piece, tables):
                _add(runs.setdefault(tables[relation].qualified, []), relation, rows)
            size += piece.nbytes
        if size >= most_bytes:
            yield _together(runs, tables)
            runs, size = {}, 0
    if runs:
        yield _together(runs, tables)


def _cut(chunk: pa.Table, tables: Mapping[int, TableVersion], known: dict[str, int]) -> Iterator[pa.Table]:
    """The chunk in pieces; each but the first begins with a version of a table that is not the known one."""
    numbers = chunk["relation"].fill_null(-1).to_numpy()
    start = 0
    while True:
        found, firsts = np.unique(numbers[start:], return_index=True)
        for first, relation in sorted(zip(firsts.tolist(), found.tolist(), strict=True)):
            if relation >= 0 and known.setdefault(tables[relation].qualified, relation) != relation:
                yield chunk.slice(start, first)
                known.clear()
                start += first
                break
        else:
            yield chunk.slice(start)
            return


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
