"""
How the result of a fold is applied to one table.

Rows that are new go straight into the table by COPY. Everything else removes the rows of all touched keys
and puts the final ones in their place, so that swaps of keys, or of other unique values, never meet a row
that is about to go. Neighbours: :mod:`pgsluice.sinks.fold`, ``staging`` and ``copy_text``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from pgsluice.errors import RowRefusedError
from pgsluice.sinks.fold.result import COPY_AGAIN
from pgsluice.sinks.postgres.names import listed
from pgsluice.sinks.postgres.staging import Staging, cell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.sinks.fold import Folded, Patch
    from pgsluice.sinks.postgres.config import OnConflict
    from pgsluice.sinks.postgres.target import TargetTable


class Merge:
    """Applies folds over one connection, inside the caller's transaction."""

    def __init__(self, conn: Connection, on_conflict: OnConflict) -> None:
        self._conn = conn
        self._on_conflict = on_conflict
        self._staging = Staging(conn)

    def apply(self, table: TargetTable, folded: Folded) -> None:
        """Apply one fold."""
        if folded.truncated:
            self._empty(table)
        if folded.patch is not None:
            self._replace(table, folded.patch, folded.delete)
        elif folded.delete is not None:
            self._delete(table, folded.delete)
        if folded.insert is not None:
            self._insert(table, folded.insert)

    def _empty(self, table: TargetTable) -> None:
        self._conn.execute(table.emptying, ())

    def _insert(self, table: TargetTable, rows: pa.ListArray | pa.ChunkedArray) -> None:
        if self._on_conflict != "nothing":
            names = [column.identifier for column in table.columns]
            self._staging.copy(table.name, names, rows, [column.index for column in table.columns])
            return
        cells = [pc.list_element(rows, index) for index in range(len(table.version.columns))]
        with self._staging.source("rows", cells) as source:
            statement = sql.SQL(
                "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} rows ON CONFLICT DO NOTHING"
            ).format(table.name, _names(table), listed(values(table)), source.sql)
            self._conn.execute(statement, source.parameters)

    def _delete(self, table: TargetTable, rows: pa.Table) -> None:
        if table.finds_by_array:
            self._delete_by_array(table, rows["k0"])
            return
        statement, columns = delete_statement(rows)
        with self._staging.source("keys", columns) as source:
            found = self._conn.execute(statement(table, source.sql), source.parameters).rowcount
        if "copies" in rows.column_names:
            require_copies(table, pc.sum(rows["copies"]).as_py() or 0, found)

    def _delete_by_array(self, table: TargetTable, keys: pa.ChunkedArray) -> None:
        """By one walk along the index, in its order: a third less than a join."""
        (key,) = table.key
        with self._staging.source("keys", [keys], joined=False) as source:
            statement = sql.SQL(
                "DELETE FROM {} t WHERE t.{} {} ANY (ARRAY(SELECT {}::{} FROM {} keys))"
            ).format(table.rows, key.identifier, key.equality, cell("keys", 0), key.type, source.sql)
            if source.parameters:
                self._conn.execute(statement, source.parameters)
                return
            # The planner takes the array for a short one, and might look through it once per row.
            self._conn.execute("SET LOCAL enable_seqscan = off")
            self._conn.execute(statement, ())
            self._conn.execute("SET LOCAL enable_seqscan TO DEFAULT")

    def _replace(self, table: TargetTable, patch: Patch, delete: pa.Table | None) -> None:
        """
        Put the patch's rows in the place of all touched ones.

        One statement, whose parts all see the table as it was before: the missing values are read although
        their rows are deleted beside. The count makes it delete everything before the first row comes.
        """
        columns, flags = patch_columns(table, patch)
        assert delete is not None, "a row of the target that is a base is touched"
        touched = [delete[name] for name in delete.column_names]
        with (
            self._staging.source("rows", columns) as rows,
            self._staging.source("keys", touched) as gone,
        ):
            statement = sql.SQL(
                "WITH patched AS MATERIALIZED (SELECT {} FROM {} rows JOIN {} t ON {}), "
                "gone AS ({} RETURNING 1) "
                "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE "
                "SELECT patched.* FROM patched CROSS JOIN (SELECT count(*) FROM gone) counted"
            ).format(
                listed(values(table, flags)),
                rows.sql,
                table.rows,
                same_key(table, "rows", len(table.version.columns)),
                _delete_keys(table, gone.sql),
                table.name,
                _names(table),
            )
            found = self._conn.execute(statement, [*rows.parameters, *gone.parameters]).rowcount
        require_found(table, len(patch.rows), found)


def require_found(table: TargetTable, wanted: int, found: int) -> None:
    """Raise if rows are missing whose values a patch needs."""
    if found != wanted:
        raise RowRefusedError(
            f"{wanted - found} rows of {table.version.qualified} have a large value that the "
            "stream did not send again, and the target lacks the rows that hold it",
            remedy=COPY_AGAIN,
            table=table.version.qualified,
        )


def require_copies(table: TargetTable, wanted: int, found: int) -> None:
    """Raise if rows of a table without a key are missing: others would be left in their place."""
    if found != wanted:
        raise RowRefusedError(
            f"{wanted - found} rows of {table.version.qualified}, which has no key, are not in the target as "
            "the source had them",
            remedy=COPY_AGAIN,
            table=table.version.qualified,
        )


def patch_columns(
    table: TargetTable, patch: Patch
) -> tuple[list[pa.Array | pa.ChunkedArray], dict[int, int]]:
    """A patch as columns to stage, and by column index: where it is said whether its value is missing."""
    width, keys = len(table.version.columns), patch.base.column_names
    columns = [
        *(pc.list_element(patch.rows, index) for index in range(width)),
        *(patch.base[name] for name in keys),
        *(missing.cast(pa.string()) for missing in patch.missing.values()),
    ]
    return columns, {index: width + len(keys) + place for place, index in enumerate(patch.missing)}


def delete_statement(
    rows: pa.Table,
) -> tuple[Callable[[TargetTable, sql.Composable], sql.Composed], list[pa.ChunkedArray]]:
    """What makes the statement that deletes rows, and the columns that it needs."""
    statement = _delete_copies if "copies" in rows.column_names else _delete_keys
    return statement, [rows[name].cast(pa.string()) for name in rows.column_names]


def _names(table: TargetTable) -> sql.Composed:
    return listed([column.identifier for column in table.columns])


def values(table: TargetTable, flags: dict[int, int] | None = None) -> Sequence[sql.Composable]:
    """The columns' values from the text of ``rows``, or from ``t`` where the column's flag is set."""
    found = []
    for column in table.columns:
        value = sql.SQL("{}::{}").format(cell("rows", column.index), column.type)
        if flags and column.index in flags:
            value = sql.SQL("CASE WHEN {}::bool THEN t.{} ELSE {} END").format(
                cell("rows", flags[column.index]), column.identifier, value
            )
        found.append(sql.SQL("{} AS {}").format(value, column.identifier))
    return found


def same_key(table: TargetTable, other: str, first: int) -> sql.Composed:
    """The key of ``t`` equals the cells of ``other`` from ``first`` on."""
    return sql.SQL(" AND ").join(
        sql.SQL("t.{} {} {}::{}").format(
            column.identifier, column.equality, cell(other, first + place), column.type
        )
        for place, column in enumerate(table.key)
    )


def _delete_keys(table: TargetTable, source: sql.Composable) -> sql.Composed:
    return sql.SQL("DELETE FROM {} t USING {} keys WHERE {}").format(
        table.rows, source, same_key(table, "keys", 0)
    )


def _delete_copies(table: TargetTable, source: sql.Composable) -> sql.Composed:
    """
    Delete the first so many of equal rows.

    Rows are compared by the text of the whole row: that is NULL-safe, tells 1.0 from 1.00, needs no
    equality of the types (json has none), and can be hashed.
    """
    given = [sql.SQL("{}::{}").format(cell("keys", c.index), c.stored) for c in table.columns]
    held = [sql.SQL("t.{}").format(column.identifier) for column in table.columns]
    return sql.SQL(
        "WITH wanted AS (SELECT ROW({})::text AS whole, {}::bigint AS copies FROM {} keys), "
        "found AS (SELECT t.tableoid AS heap, t.ctid AS place, copies, "
        "row_number() OVER (PARTITION BY wanted.whole) AS nth "
        "FROM {} t JOIN wanted ON ROW({})::text = wanted.whole) "
        "DELETE FROM {} t USING found "
        "WHERE t.tableoid = found.heap AND t.ctid = found.place AND found.nth <= found.copies"
    ).format(
        listed(given),
        cell("keys", len(table.version.columns)),
        source,
        table.rows,
        listed(held),
        table.rows,
    )
