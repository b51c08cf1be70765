"""
Rows that were touched between two points, by their keys.

A table that was copied in part at one point is finished at a later one. What was not touched between the two
is in the copied pages as it should be, and what was touched is put right here: removed by its key, and copied
again if it is there at the later point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

from pgsluice.schema.type_names import base_type, display_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pgsluice.schema.table import PgType, TableVersion
    from pgsluice.source.snapshot.ranges import Copied
    from pgsluice.source.snapshot.tables import CopiedTable, Heap

Key = tuple[str, ...]
"""The text of the columns that a row is found by."""

_KEYS_AT_A_TIME: Final = 5000  # of one statement


@dataclass(frozen=True, slots=True)
class RemovedKeys:
    """Entries that remove rows."""

    about: Copied
    places: tuple[int, ...]  # of the key's columns
    keys: tuple[Key, ...]
    bytes: int = 0

    def rows(self) -> Iterator[pa.RecordBatch]:
        """One batch with all of them."""
        from pgsluice.source.snapshot.parse import removed

        yield removed(self.about, self.places, self.keys)


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The rows of a heap that have one of some keys."""

    url: str
    snapshot: str
    about: Copied
    heap: Heap
    names: tuple[str, ...]  # of the columns
    row_filter: str | None
    key: tuple[tuple[str, str, str], ...]  # names, types and equality of its columns
    keys: tuple[Key, ...]
    bytes: int = 0

    @property
    def statement(self) -> sql.Composed:
        """What COPY reads."""
        lists = [sql.Literal([key[place] for key in self.keys]) for place in range(len(self.key))]
        same = [
            sql.SQL("heap.{} {} keys.{}::{}").format(
                sql.Identifier(name),
                sql.SQL(equality),
                sql.Identifier(f"k{place}"),
                sql.SQL(kind),
            )
            for place, (name, kind, equality) in enumerate(self.key)
        ]
        return sql.SQL("SELECT {} FROM ONLY {} heap JOIN unnest({}) AS keys({}) ON {}{}").format(
            sql.SQL(", ").join(sql.Identifier("heap", name) for name in self.names),
            sql.Identifier(self.heap.schema, self.heap.name),
            sql.SQL(", ").join(sql.SQL("{}::text[]").format(texts) for texts in lists),
            sql.SQL(", ").join(sql.Identifier(f"k{place}") for place in range(len(self.key))),
            sql.SQL(" AND ").join(same),
            sql.SQL(" WHERE ({})").format(sql.SQL(self.row_filter)) if self.row_filter else sql.SQL(""),
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The entries, a few MiB at a time."""
        from pgsluice.source.snapshot.copy_out import copy_out
        from pgsluice.source.snapshot.parse import entries

        first = 1
        for lines in copy_out(self):
            batch = entries(lines, self.about, first)
            first += batch.num_rows
            yield batch


def removed_keys(version: TableVersion, keys: Sequence[Key], places: Iterator[Copied]) -> list[RemovedKeys]:
    """What removes the rows of these keys as they were; ``places`` numbers the parts."""
    return [RemovedKeys(next(places), version.merge_key, tuple(keys))] if keys else []


def keyed_rows(
    table: CopiedTable,
    version: TableVersion,
    url: str,
    snapshot: str,
    keys: Sequence[Key],
    places: Iterator[Copied],
) -> list[KeyedRows]:
    """What brings the rows of these keys as they are at the point."""
    columns = [version.columns[index] for index in version.merge_key]
    return [
        KeyedRows(
            url,
            snapshot,
            next(places),
            heap,
            tuple(column.name for column in table.relation.columns),
            table.row_filter,
            tuple((column.name, display_name(column.type), equality(column.type)) for column in columns),
            tuple(keys[start : start + _KEYS_AT_A_TIME]),
        )
        for start in range(0, len(keys), _KEYS_AT_A_TIME)
        for heap in table.heaps
    ]


def equality(kind: PgType) -> str:
    """The operator, by its schema: that of an extension's type is beside the type, not on our search path."""
    base = base_type(kind)
    schema = base.schema if base.kind == "base" and base.schema else "pg_catalog"
    return "OPERATOR({}.=)".format('"' + schema.replace('"', '""') + '"')
