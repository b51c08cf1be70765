"""Digests of a source's rows, and marks in its stream that say whether a target is up to date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from pgsluice.changelog.position import Lsn
from pgsluice.postgres.digests import KeyColumn, ServerDigests
from pgsluice.schema.type_names import display_name
from pgsluice.source.connect import source_errors
from pgsluice.source.snapshot.touched import equality

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import TableVersion
    from pgsluice.source.snapshot.tables import CopiedTable


@dataclass(frozen=True, slots=True)
class SourceDigests:
    """Rows of one table."""

    url: str
    table: str
    digests: ServerDigests

    @classmethod
    def of(
        cls,
        conn: Connection,
        url: str,
        table: CopiedTable,
        version: TableVersion,
        columns: Sequence[int],
        key: Sequence[int],
    ) -> SourceDigests:
        """Some columns of a table; they and those of its key by their places."""
        chosen = [version.columns[place] for place in key]
        digests = ServerDigests(
            conn,
            _rows(table),
            [sql.Identifier("t", version.columns[place].name) for place in columns],
            [sql.Identifier("t", column.name) for column in chosen],
            [KeyColumn(column.name, display_name(column.type), equality(column.type)) for column in chosen],
        )
        return cls(url, table.qualified, digests)

    def by_bucket(self, buckets: int) -> dict[int, tuple[int, int]]:
        """Number and sum of the digests of all rows, by bucket."""
        with source_errors(self.url, f"read {self.table}"):
            return self.digests.by_bucket(buckets)

    def by_key(
        self, buckets: int, chosen: Sequence[int], keys: Collection[tuple[str, ...]] = ()
    ) -> dict[tuple[str, ...], tuple[int, int]]:
        """The same by key, of some buckets; with ``keys``, of these alone."""
        with source_errors(self.url, f"read {self.table}"):
            return self.digests.by_key(buckets, chosen, keys)


def _rows(table: CopiedTable) -> sql.Composed:
    """All heaps of a table, as the publication filters them."""
    where = sql.SQL(" WHERE ({})").format(sql.SQL(table.row_filter)) if table.row_filter else sql.SQL("")
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.relation.columns)
    heaps = [
        sql.SQL("SELECT {} FROM ONLY {}{}").format(names, sql.Identifier(heap.schema, heap.name), where)
        for heap in table.heaps
    ]
    return sql.SQL("({}) AS t").format(sql.SQL(" UNION ALL ").join(heaps))


def mark(conn: Connection) -> Lsn:
    """Put a message into the stream: a target that is past it has all that was committed before."""
    row = conn.execute(
        "SELECT pg_catalog.pg_logical_emit_message(true, 'pgsluice.verify', '')::text"
    ).fetchone()
    assert row is not None
    return Lsn.parse(row[0])
