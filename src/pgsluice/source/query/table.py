"""
One table with typed columns: which version a query starts with, and where the next one begins.

A stream's columns are fixed when it is made, before Spark tells us its checkpoint. So a batch never
reaches into rows with other columns: it ends before them, the query stops there, and the next one is made
with the columns of the first row that it will read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pgsluice.changelog.position import Lsn
from pgsluice.errors import TableChangedError
from pgsluice.source.query.bounded import NO_END, UNLIMITED
from pgsluice.source.query.columns import typed_columns
from pgsluice.source.relations import UNWANTED
from pgsluice.source.tasks import decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgsluice.changelog.plan import LogSlice
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.source.query.bounded import BoundedReader
    from pgsluice.source.relations import DecodableRange, Relations

_SCAN_BYTES: Final = 64 << 20


class TypedTable:
    """The table of a query, in the log."""

    def __init__(
        self, reader: BoundedReader, relations: Relations, table: tuple[str, str], special: SpecialValues
    ) -> None:
        self._reader = reader
        self._relations = relations
        self._name = ".".join(table)
        self._special = special

    def version_ahead(self, position: Lsn) -> TableVersion | None:
        """The version of the first row after ``position``; None when the log has none there."""
        parts, versions = self._between(position, NO_END)
        if len({self._layout(version) for version in versions.values()}) > 1:
            for rows in self._rows(position):
                return versions[int(rows["relation"][0])]
        return _last_named(parts, versions)

    def version_behind(self, position: Lsn, store: SchemaStore) -> TableVersion | None:
        """The last version that the log, or at least its schema store, has named up to ``position``."""
        known = [version for version in store.versions() if version.qualified == self._name]
        return _last_named(*self._between(self._reader.first_lsn, position)) or (known[-1] if known else None)

    def end_of_layout(self, slice_: LogSlice, columns: StructType) -> Lsn:
        """Where rows of these columns end in the slice; raises when the first row has others."""
        _, used = self._relations.resolve(slice_.ranges)
        fitting = [v.id for v in used.values() if self._layout(v) == columns]
        if len(fitting) == len(used):
            return slice_.end
        for rows in self._rows(slice_.start, slice_.end):
            foreign = np.flatnonzero(~np.isin(rows["relation"], fitting))
            if len(foreign):
                return self._end_before(rows, int(foreign[0]), used)
        return slice_.end

    def _end_before(self, rows: dict[str, Any], first: int, used: Mapping[int, TableVersion]) -> Lsn:
        commits, ends = rows["commit_lsn"], rows["end_lsn"]
        earlier = ends[:first][commits[:first] != commits[first]]
        if len(earlier):
            return Lsn(int(earlier[-1]))
        changed = used[int(rows["relation"][first])]
        at = Lsn(int(commits[first]))
        if first:
            raise TableChangedError(
                f"the transaction at {at} has rows of {self._name} from before and after a change of columns",
                remedy="Read it in the envelope (without the option table), then start with a new checkpoint "
                f'directory and .option("startingPosition", "{Lsn(int(ends[first]))}")',
                table=self._name,
                lsn=str(at),
            )
        raise TableChangedError(
            f"the columns of {self._name} changed at {at}; from there on they are "
            f"{', '.join(column.name for column in changed.columns)}",
            remedy="Load and start the query again with the same checkpoint directory: it goes on with them",
            table=self._name,
            lsn=str(at),
        )

    def _rows(self, after: Lsn, until: Lsn = NO_END) -> Iterator[dict[str, Any]]:
        """
        Position and version of the table's rows, a slice of the log at a time.

        A slice is whole transactions, so what is asked about one transaction is answered in one piece.
        """
        while slice_ := self._reader.between(after, until, max_bytes=_SCAN_BYTES):
            after = slice_.end
            parts, _ = self._relations.resolve(slice_.ranges)
            found = [_keys(decode(part)) for part in parts if names_table(part)]
            if found:
                yield {name: np.concatenate([keys[name] for keys in found]) for name in found[0]}

    def _between(self, after: Lsn, until: Lsn) -> tuple[list[DecodableRange], Mapping[int, TableVersion]]:
        """What lies between two positions, in pieces as large as segments."""
        slice_ = self._reader.between(after, until, range_bytes=UNLIMITED) if after < until else None
        return self._relations.resolve(slice_.ranges if slice_ else ())

    def _layout(self, version: TableVersion) -> StructType:
        return typed_columns(version, self._special)


def names_table(part: DecodableRange) -> bool:
    """Whether a range may have rows of a wanted table."""
    return any(relation.version != UNWANTED for relation in part.relations)


def _last_named(parts: list[DecodableRange], versions: Mapping[int, TableVersion]) -> TableVersion | None:
    named = (r.version for part in reversed(parts) for r in reversed(part.relations) if r.version != UNWANTED)
    return next((versions[number] for number in named), None)


def _keys(batch: pa.RecordBatch) -> dict[str, Any]:
    """Of the rows of tables; messages have no relation."""
    rows = batch.select(["commit_lsn", "end_lsn", "relation"]).drop_null()
    return {name: rows.column(name).to_numpy(zero_copy_only=False) for name in rows.schema.names}
