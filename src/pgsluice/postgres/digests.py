"""
Digests of rows, made by the server that has them: what two servers hold is compared without moving it.

A row is digested as the texts that its types print, under the pinned settings: 1.0 and 1.00 differ, and
collations play no part. NULL is no text. Statements have no parameters: names and texts may have per cent
signs in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pgsluice.postgres.session import Connection

_KEYS_AT_A_TIME: Final = 5000  # of one statement

# concat() prints by the type's own output, as COPY does; a cast to text has other words for some types.
_TEXT: Final = sql.SQL("pg_catalog.concat({})")
# IS NULL would be true of a composite value whose fields are all NULL.
_CELL: Final = sql.SQL(
    "CASE WHEN {cell} IS DISTINCT FROM NULL THEN pg_catalog.length({text}) || ':' || {text} ELSE '-' END"
)
_HEX: Final = sql.SQL("pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to({}, 'UTF8')), 'hex')")
_ROWS: Final = sql.SQL("SELECT {key} AS k, {row} AS r FROM {rows}")
_DIGESTS: Final = sql.SQL(
    "SELECT {shown} AS k, ('x' || pg_catalog.left({key_hex}, 7))::bit(28)::int4 & {mask} AS b, "
    "('x' || pg_catalog.left({row_hex}, 15))::bit(60)::int8 AS d FROM ({rows}) AS texts"
)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column by which rows are found."""

    name: str
    type: str  # as SQL
    equality: str  # the operator of that type


@dataclass(frozen=True, slots=True)
class ServerDigests:
    """Rows of one server."""

    conn: Connection
    rows: sql.Composable  # what stands after FROM, as ``t``
    cells: Sequence[sql.Composable]  # the values that are compared, by columns of ``t``
    key: Sequence[sql.Composable]  # the same of the key; none: rows are told apart by all cells
    found_by: Sequence[KeyColumn] = ()  # columns of ``t``, where a key can be looked up

    def by_bucket(self, buckets: int) -> dict[int, tuple[int, int]]:
        """Number and sum of the digests of all rows, by bucket."""
        query = sql.SQL(
            "SELECT b, pg_catalog.count(*), pg_catalog.sum(d)::text FROM ({}) AS digests GROUP BY b"
        )
        found = self.conn.execute(query.format(self._digests(buckets, self.rows)))
        return {bucket: (rows, int(total)) for bucket, rows, total in found}

    def by_key(
        self, buckets: int, chosen: Sequence[int], keys: Collection[tuple[str, ...]] = ()
    ) -> dict[tuple[str, ...], tuple[int, int]]:
        """The same by key, of some buckets; with ``keys``, of these alone."""
        found: dict[tuple[str, ...], tuple[int, int]] = {}
        for rows in self._sources(keys):
            query = sql.SQL(
                "SELECT k, pg_catalog.count(*), pg_catalog.sum(d)::text FROM ({}) AS digests "
                "WHERE b = ANY ({}::int4[]) GROUP BY k"
            ).format(self._digests(buckets, rows), sql.Literal(list(chosen)))
            for key, count, total in self.conn.execute(query):
                found[tuple(key)] = (count, int(total))
        return {key: found[key] for key in keys if key in found} if keys else found

    def _sources(self, keys: Collection[tuple[str, ...]]) -> Iterator[sql.Composable]:
        if not keys or not self.found_by:
            yield self.rows
            return
        listed = list(keys)
        for start in range(0, len(listed), _KEYS_AT_A_TIME):
            yield self._joined(listed[start : start + _KEYS_AT_A_TIME])

    def _joined(self, keys: Sequence[tuple[str, ...]]) -> sql.Composed:
        """The rows of some keys: found by value, for which there may be an index, and then by text."""
        names = [sql.Identifier(f"k{place}") for place in range(len(self.found_by))]
        lists = [sql.Literal([key[place] for key in keys]) for place in range(len(names))]
        same = [
            sql.SQL("t.{column} {equality} keys.{name}::{type} AND {text} = keys.{name}").format(
                column=sql.Identifier(column.name),
                equality=sql.SQL(column.equality),
                name=name,
                type=sql.SQL(column.type),
                text=_TEXT.format(sql.Identifier("t", column.name)),
            )
            for name, column in zip(names, self.found_by, strict=True)
        ]
        return sql.SQL("{} JOIN unnest({}) AS keys({}) ON {}").format(
            self.rows,
            sql.SQL(", ").join(sql.SQL("{}::text[]").format(each) for each in lists),
            sql.SQL(", ").join(names),
            sql.SQL(" AND ").join(same),
        )

    def _digests(self, buckets: int, rows: sql.Composable) -> sql.Composed:
        key = sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(_TEXT.format(cell) for cell in self.key))
        texts = _ROWS.format(
            key=key if self.key else sql.SQL("NULL"),
            row=sql.SQL(" || ").join(_CELL.format(cell=cell, text=_TEXT.format(cell)) for cell in self.cells)
            if self.cells
            else sql.SQL("''"),
            rows=rows,
        )
        row_hex = _HEX.format(sql.SQL("r"))
        return _DIGESTS.format(
            shown=sql.SQL("k") if self.key else sql.SQL("ARRAY[pg_catalog.left({}, 32)]").format(row_hex),
            key_hex=_HEX.format(sql.SQL("k::text")) if self.key else row_hex,
            mask=sql.Literal(buckets - 1),
            row_hex=row_hex,
            rows=texts,
        )
