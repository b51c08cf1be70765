"""
Several tables in one statement, for foreign keys that can't be switched off.

They are looked at when a statement is over, however its parts were ordered: parents and children come and go
together, and so do rows that refer to each other. Neighbour: ``merge``, whose parts it puts together.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from psycopg import sql

from pgsluice.sinks.postgres import merge
from pgsluice.sinks.postgres.names import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from pgsluice.postgres.session import Connection
    from pgsluice.sinks.fold import Folded, Patch
    from pgsluice.sinks.postgres.staging import Source, Staging
    from pgsluice.sinks.postgres.target import TargetTable


class OneStatement:
    """A statement that grows by the folds of tables, and is run once."""

    def __init__(self, staging: Staging, *, leaves_conflicts: bool) -> None:
        self._staging = staging
        self._conflicts = sql.SQL(" ON CONFLICT DO NOTHING" if leaves_conflicts else "")
        self._parts: list[sql.Composable] = []
        self._parameters: list[Any] = []
        self._counted: list[tuple[sql.Identifier, Callable[[int], None]]] = []  # what parts must find
        self._staged = ExitStack()
        self._numbers = 0

    def run(self, conn: Connection, folds: Sequence[tuple[TargetTable, Folded]]) -> None:
        """Apply the folds."""
        with self._staged:
            for table, folded in folds:
                self._add(table, folded)
            counts = [sql.SQL("(SELECT count(*) FROM {})").format(name) for name, _ in self._counted]
            statement = sql.SQL("WITH {} SELECT {}").format(listed(self._parts), listed(counts))
            row = conn.execute(statement, self._parameters).fetchone() if self._parts else ()
            assert row is not None
            for (_, require), found in zip(self._counted, row, strict=True):
                require(found)

    def _add(self, table: TargetTable, folded: Folded) -> None:
        patched = self._add_patched(table, folded.patch) if folded.patch is not None else None
        gone = self._add_gone(table, folded)
        waits = sql.SQL(" CROSS JOIN (SELECT count(*) FROM {}) counted").format(gone) if gone else sql.SQL("")
        if patched is not None and folded.patch is not None:
            rows = sql.SQL("{}.* FROM {}").format(patched, patched)
            require = partial(merge.require_found, table, len(folded.patch.rows))
            self._counted.append((self._add_put(table, rows, waits), require))
        if folded.insert is not None:
            width = len(table.version.columns)
            source = self._source([pc.list_element(folded.insert, index) for index in range(width)])
            rows = sql.SQL("{} FROM {} rows").format(listed(merge.values(table)), source.sql)
            self._add_put(table, rows, waits)

    def _add_patched(self, table: TargetTable, patch: Patch) -> sql.Identifier:
        columns, flags = merge.patch_columns(table, patch)
        source = self._source(columns)
        return self._add_part(
            "MATERIALIZED ",
            sql.SQL("SELECT {} FROM {} rows JOIN {} t ON {}").format(
                listed(merge.values(table, flags)),
                source.sql,
                table.rows,
                merge.same_key(table, "rows", len(table.version.columns)),
            ),
        )

    def _add_gone(self, table: TargetTable, folded: Folded) -> sql.Identifier | None:
        if folded.truncated:
            return self._add_part("", sql.SQL("{} RETURNING 1").format(table.emptying))
        if folded.delete is None:
            return None
        statement, columns = merge.delete_statement(folded.delete)
        source = self._source(columns)
        gone = self._add_part("", sql.SQL("{} RETURNING 1").format(statement(table, source.sql)))
        if "copies" in folded.delete.column_names:
            copies = pc.sum(folded.delete["copies"]).as_py() or 0
            self._counted.append((gone, partial(merge.require_copies, table, copies)))
        return gone

    def _add_put(self, table: TargetTable, rows: sql.Composable, waits: sql.Composable) -> sql.Identifier:
        put = sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {}{}{} RETURNING 1")
        names = listed([column.identifier for column in table.columns])
        return self._add_part("", put.format(table.name, names, rows, waits, self._conflicts))

    def _add_part(self, how: str, body: sql.Composable) -> sql.Identifier:
        name = sql.Identifier(f"part{len(self._parts)}")
        self._parts.append(sql.SQL("{} AS " + how + "({})").format(name, body))
        return name

    def _source(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Source:
        self._numbers += 1
        source = self._staged.enter_context(self._staging.source(f"rows{self._numbers}", columns))
        self._parameters += source.parameters
        return source
