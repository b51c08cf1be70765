"""
From a table to the tasks of a read.

In a held snapshot the table is read in ranges of pages, several at once. Without one, every task would see
the table of its own moment: the whole table is then one task and one statement.
"""

from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pgsluice.errors import ConfigError
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.scan.held import HeldSnapshot, enter_held
from pgsluice.source.scan.layout import arrow_schema, read_columns, table_columns
from pgsluice.source.scan.read import Pages, TablePartition
from pgsluice.source.scan.table import describe, heaps_of, require_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgsluice.source.query.options import ReadOptions
    from pgsluice.source.scan.table import ScannedHeap, ScannedTable

_SMALLEST_RANGE: Final = 4 << 20  # a task costs some tens of milliseconds, whatever it reads
_LARGEST_RANGE: Final = 128 << 20  # as Spark does with files


def columns_of_table(options: ReadOptions, *, about: bool = False) -> pa.Schema:
    """The columns of a read."""
    url, table, held = _asked(options)
    with source_errors(url, "describe the table"), connect(url) as conn:
        if held is not None:
            enter_held(conn, held)
        described = describe(conn, table)
        if options.where is not None:
            require_condition(conn, described, options.where)
        return table_columns(described, options.columns, options.special, about=about)


def plan(options: ReadOptions, schema: StructType) -> list[TablePartition]:
    """The tasks of a read; none for a partitioned table without partitions."""
    url, name, held = _asked(options)
    with source_errors(url, "plan the read"), connect(url) as conn:
        if held is not None:
            enter_held(conn, held)
        table = describe(conn, name)
        if options.where is not None:
            require_condition(conn, table, options.where)
        columns = read_columns(table, schema, options.special)
        names = [column.name for column in columns]
        if held is None:
            groups = [[_whole(table, names)]]
        else:
            groups = _in_ranges(heaps_of(conn, table, names), names, options.partitions)
    return [
        TablePartition(
            url, held, columns, arrow_schema(schema, columns), options.special, options.where, tuple(group)
        )
        for group in groups
    ]


def _asked(options: ReadOptions) -> tuple[str, tuple[str, str], HeldSnapshot | None]:
    if options.url is None or options.table is None:
        raise ConfigError(
            "a table is read from its database by the options url and table",
            remedy="Give both; a change log is read with the option log alone",
        )
    return options.url, options.table, HeldSnapshot.decode(options.snapshot) if options.snapshot else None


def _whole(table: ScannedTable, names: Sequence[str]) -> Pages:
    numbers = {column.name: column.number for column in table.columns}
    return Pages(
        0,
        table.relid,
        table.schema,
        table.name,
        tuple(numbers[name] for name in names),
        only=not table.partitioned,
    )


def _in_ranges(heaps: Sequence[ScannedHeap], names: Sequence[str], tasks: int | None) -> list[list[Pages]]:
    """Ranges of all heaps, in groups of about the same size."""
    total = sum(each.heap.bytes for each in heaps)
    if tasks is None:
        share = total // (2 * (os.cpu_count() or 1))
        tasks = math.ceil(total / min(max(share, _SMALLEST_RANGE), _LARGEST_RANGE))
    size = max(total / max(tasks, 1), 1.0)
    groups: list[list[Pages]] = []
    taken = 0.0
    number = 0
    for each in heaps:
        pieces = _cut(each, names, number, size)
        number += len(pieces)
        for piece in pieces:
            if not groups or taken >= len(groups) * size:
                groups.append([])
            groups[-1].append(piece)
            taken += each.heap.bytes / len(pieces)
    return groups


def _cut(each: ScannedHeap, names: Sequence[str], number: int, size: float) -> list[Pages]:
    """A heap in ranges of about the same size; TOAST counts."""
    heap = each.heap
    count = min(max(round(heap.bytes / size), 1), max(heap.pages, 1))
    bounds = [heap.pages * place // count for place in range(count + 1)]
    return [
        Pages(
            number + place,
            heap.relid,
            heap.schema,
            heap.name,
            tuple(each.numbers[name] for name in names),
            heap.filenode,
            first,
            None if place == count - 1 else end,
        )
        for place, (first, end) in enumerate(pairwise(bounds))
    ]
