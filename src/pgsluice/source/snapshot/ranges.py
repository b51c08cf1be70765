"""
Ranges of a table: neighbouring pages of one heap, which a task reads by one COPY in the point's snapshot.

A range is plain data and can be read anywhere: on the driver, or by a task of Spark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from psycopg import sql

from pgsluice.changelog.position import Lsn

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pgsluice.source.snapshot.tables import CopiedTable, Heap

RANGE_BYTES: Final = 32 << 20  # a second of work, which is what is lost when a task fails
_RANGES: Final = 16  # of a large table, rather than more: each has connections of its own
_LARGEST: Final = 4  # times RANGE_BYTES
SEQ_OF_RANGE: Final = 1 << 32  # positions that each range has for its rows


@dataclass(frozen=True, slots=True)
class Copied:
    """What all entries of a range have in common."""

    lsn: int
    taken_at: dt.datetime
    seq: int  # before the range's first row
    relation: int  # the table's version
    schema: str
    table: str
    columns: int

    def part(self, number: int) -> Copied:
        """The same for one of several parts of a table."""
        return replace(self, seq=self.seq + number * SEQ_OF_RANGE)


@dataclass(frozen=True, slots=True)
class CopyRange:
    """Pages of a heap."""

    url: str
    snapshot: str
    about: Copied
    heap: Heap
    names: tuple[str, ...]  # of the columns
    row_filter: str | None
    first_page: int
    end_page: int | None  # None: to the end, whatever was added since the size was read
    bytes: int  # on the source's disk, about
    begins: bool = False  # the first of its table
    resumes: bool = False  # of a table whose first ranges were copied at an earlier point
    empties: bool = False  # the table is emptied first: an earlier copy of it was not finished

    @property
    def relation(self) -> int:
        """The table's version."""
        return self.about.relation

    @property
    def name(self) -> str:
        """Of all ranges of all copies of this source."""
        return f"{Lsn(self.about.lsn)} {self.heap.relid} {self.first_page}"

    @property
    def statement(self) -> sql.Composed:
        """What COPY reads."""
        upper: sql.Composable = sql.SQL("")
        if self.end_page is not None:
            upper = sql.SQL(" AND ctid < {}").format(sql.Literal(f"({self.end_page},0)"))
        filtered = sql.SQL(" AND ({})").format(sql.SQL(self.row_filter)) if self.row_filter else sql.SQL("")
        return sql.SQL("SELECT {} FROM ONLY {} WHERE ctid >= {}{}{}").format(
            sql.SQL(", ").join(map(sql.Identifier, self.names)),
            sql.Identifier(self.heap.schema, self.heap.name),
            sql.Literal(f"({self.first_page},0)"),
            upper,
            filtered,
        )

    def pieces(self, columns: Sequence[int], *, binary: bool) -> Iterator[memoryview]:
        """Some of the columns as COPY gives them."""
        from pgsluice.source.snapshot.copy_out import copy_out

        chosen = replace(self, names=tuple(self.names[index] for index in columns))
        return (piece.data for piece in copy_out(chosen, binary=binary))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The entries, a few MiB at a time."""
        from pgsluice.source.snapshot.copy_out import copy_out
        from pgsluice.source.snapshot.parse import emptied, entries

        if self.empties:
            yield emptied(self.about)
        first = 1
        for lines in copy_out(self):
            batch = entries(lines, self.about, first)
            first += batch.num_rows
            yield batch


def cut(
    table: CopiedTable,
    url: str,
    snapshot: str,
    about: Copied,
    *,
    empties: bool,
    start: tuple[int, int] = (0, 0),
    range_bytes: int = RANGE_BYTES,
) -> list[CopyRange]:
    """
    All ranges of a table, at least one for each of its heaps.

    ``start`` is the heap, by its place, and the page to begin with, where what is before them is copied.
    """
    names = tuple(column.name for column in table.relation.columns)
    found: list[CopyRange] = []
    for place, heap in enumerate(table.heaps):
        if place < start[0]:
            continue
        first = start[1] if place == start[0] else 0
        size = min(max(range_bytes, heap.bytes // _RANGES), _LARGEST * range_bytes)
        pages = max(1, math.ceil(size * heap.pages / max(heap.bytes, 1)))  # TOAST counts
        starts = range(first, max(heap.pages, first + 1), pages)
        for page in starts:
            end = None if page == starts[-1] else page + pages
            found.append(
                CopyRange(
                    url,
                    snapshot,
                    about.part(len(found)),
                    heap,
                    names,
                    table.row_filter,
                    page,
                    end,
                    min(heap.bytes, pages * heap.bytes // max(heap.pages, 1)),
                    begins=not found and start == (0, 0),
                    empties=empties and not found,
                )
            )
    return found
