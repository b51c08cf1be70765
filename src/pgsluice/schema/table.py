"""
One version of a table, as the stream describes it.

A Relation message of the stream gives names, type numbers and the replica identity; the catalog of
the source adds what the stream does not say (names of types, the primary key).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Identity = Literal["d", "n", "f", "i"]
"""REPLICA IDENTITY: default (primary key), nothing, full, index."""

TypeKind = Literal["base", "enum", "domain", "composite", "range", "array", "unknown"]
"""What pg_type says a type is; ``unknown`` when only its number is known."""


@dataclass(frozen=True, slots=True)
class PgType:
    """A column's type."""

    oid: int
    name: str  # pg_type.typname: int4, numeric, mood
    schema: str = "pg_catalog"
    typmod: int = -1
    kind: TypeKind = "base"
    element: PgType | None = None  # of an array
    base: PgType | None = None  # of a domain: what it stands for, with the typmod that holds


@dataclass(frozen=True, slots=True)
class Column:
    """A column, in the order of the stream."""

    name: str
    type: PgType
    in_identity: bool  # the Relation message's flag: part of what UPDATE and DELETE send as old key
    number: int = 0  # pg_attribute.attnum, which survives renames; 0 when unknown


class Parent(NamedTuple):
    """A partitioned table that another one is a partition of."""

    relid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table between two changes of its definition."""

    id: int  # number in the schema store
    relid: int  # pg_class.oid
    schema: str
    name: str
    identity: Identity
    columns: tuple[Column, ...]
    naming: tuple[str, ...] = field(default=())  # columns that tell rows apart for people; by the catalog
    former: tuple[tuple[int, str], ...] = field(default=())  # numbers and names of columns in other versions
    parents: tuple[Parent, ...] = field(default=())  # of a partition, the nearest first; by the catalog

    def former_names(self, column: Column) -> set[str]:
        """What a column was called before; empty when that is not known."""
        taken = {each.name for each in self.columns}
        return {name for number, name in self.former if number and number == column.number} - taken

    @property
    def dropped_names(self) -> set[str]:
        """What columns were called that the table has no longer."""
        numbers, taken = {each.number for each in self.columns}, {each.name for each in self.columns}
        return {name for number, name in self.former if number and number not in numbers} - taken

    def column_id(self, column: Column) -> str:
        """
        What tells a column from every other of the database, under whatever name; empty when unknown.

        A version that was read when the catalog had another name already has no number of that column. Other
        versions may have it.
        """
        others = {number for number, name in self.former if number and name == column.name}
        others -= {each.number for each in self.columns}
        number = column.number or (others.pop() if len(others) == 1 else 0)
        return f"{self.relid}-{number}" if number else ""

    @property
    def merge_key(self) -> tuple[int, ...]:
        """
        The columns by which UPDATE and DELETE find their row; empty when there are none.

        What the stream flags, never the primary key: with an identity USING INDEX the old tuple has that
        index's columns. With FULL a row is found by all of its old values: the catalog's key is that of now,
        and may have come, gone, or been DEFERRABLE when the row was written.
        """
        if self.identity == "f":
            return ()
        return tuple(i for i, column in enumerate(self.columns) if column.in_identity)

    @property
    def shape(self) -> str:
        """Tells versions apart whose rows need other tables; what types are called is no matter."""
        columns = [(column.name, column.type.oid, column.type.typmod) for column in self.columns]
        return f"{zlib.crc32(repr(columns).encode()):08x}"

    @property
    def qualified(self) -> str:
        """``schema.name``, for people."""
        return f"{self.schema}.{self.name}"
