"""Which rows of a table were touched between two points of the stream: their keys, from the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.changelog.reader import LogReader
from pgsluice.errors import SinkBehindLogError
from pgsluice.source.relations import Relations
from pgsluice.source.schema_entries import read_entry
from pgsluice.source.tasks import decode

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from pgsluice.changelog.plan import LogRange, LogSlice
    from pgsluice.changelog.position import Lsn
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion
    from pgsluice.source.relations import Catalog
    from pgsluice.source.snapshot.touched import Key

MOST_KEYS: Final = 1_000_000  # held in memory; with more the table had better be copied again
_SLICE_BYTES: Final = 16 << 20
_WAIT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class TouchedKeys:
    """Reads them from the log of a pipeline."""

    log: Path
    store: SchemaStore
    catalog: Catalog | None
    stopping: threading.Event

    def between(self, version: TableVersion, start: Lsn, end: Lsn) -> list[Key] | None:
        """
        The keys of rows of a table that were touched after ``start`` and at least until ``end``.

        None when they can't be had: changes are gone, the table was changed in form, or there are too many.
        """
        relations = Relations(
            self.store, catalog=self.catalog, wanted=lambda other: other.relid == version.relid
        )
        found: set[Key] = set()
        try:
            for rows in self._rows(relations, version, start, end):
                if rows is None:
                    return None
                found.update(rows)
                if len(found) > MOST_KEYS:
                    return None
        except SinkBehindLogError:
            return None
        return sorted(found)

    def has_reshaped(self, relids: Collection[int], start: Lsn, end: Lsn) -> bool:
        """
        Whether tables were changed in form between two positions, even if they were changed back.

        True as well when that can't be known.
        """
        try:
            return any(
                slice_ is None or any(_reshapes(range_, relids) for range_ in slice_.ranges)
                for slice_ in self._slices(start, end)
            )
        except SinkBehindLogError:
            return True

    def _rows(
        self, relations: Relations, version: TableVersion, start: Lsn, end: Lsn
    ) -> Iterator[set[Key] | None]:
        for slice_ in self._slices(start, end):
            if slice_ is None:
                yield None
                return
            parts, tables = relations.resolve(slice_.ranges)
            if any(other.id != version.id for other in tables.values()):
                yield None
                return
            for part in parts:
                yield _keys(decode(part), version)

    def _slices(self, start: Lsn, end: Lsn) -> Iterator[LogSlice | None]:
        """What the log has between two positions, which is waited for; None when stopped meanwhile."""
        reader = LogReader(self.log)
        position = start
        while position < end:
            slice_ = reader.next(position, _SLICE_BYTES)
            if slice_ is not None:
                yield slice_
                position = slice_.end
            elif reader.end >= end:
                return
            elif self.stopping.is_set():
                yield None
                return
            else:
                reader.wait(_WAIT_SECONDS)


def _reshapes(range_: LogRange, relids: Collection[int]) -> bool:
    """Whether a range is a change of the schema after which rows of some tables are written otherwise."""
    return range_.schema and any(
        change.renames_schema or change.rewords or (change.oid in relids and change.reshapes)
        for change in read_entry(range_).changes
    )


def _keys(rows: pa.RecordBatch, version: TableVersion) -> set[Key] | None:
    """The keys before and after each change; None when one is not known, or the table was emptied."""
    rows = rows.filter(pc.fill_null(pc.equal(rows["relation"], version.id), False))
    if pc.any(pc.equal(rows["op"], "T")).as_py():
        return None
    before = [_column(rows["old"], index) for index in version.merge_key]
    after = [_column(rows["values"], index) for index in version.merge_key]
    # A key's large value that did not change is only in the old row.
    after = [pc.coalesce(new, old) for new, old in zip(after, before, strict=True)]
    deleted = pc.equal(rows["op"], "D")
    known = [pc.if_else(deleted, old, new) for new, old in zip(after, before, strict=True)]
    if any(column.null_count for column in known):
        return None
    olds = pc.is_valid(rows["old"])
    moved = [column.filter(olds) for column in before]
    return {
        *zip(*(c.to_pylist() for c in known), strict=True),
        *zip(*(c.to_pylist() for c in moved), strict=True),
    }


def _column(lists: pa.ListArray, index: int) -> pa.Array:
    """One column of rows, where there are rows."""
    nothing = pa.scalar([None] * (index + 1), lists.type)
    return pc.list_element(pc.if_else(pc.is_valid(lists), lists, nothing), index)
