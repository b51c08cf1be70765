"""
A change of the source's schema, made in the DuckDB file inside of the transaction of the rows around it.

DuckDB's tables have columns and nothing else, so tables and their columns are all that is followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from pgsluice.sinks.duckdb.sql import quoted

if TYPE_CHECKING:
    from pgsluice.schema.entry import ObjectChange, SchemaEntry
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.duckdb.target import Tables

logger = structlog.get_logger(__name__)


class SchemaChanges:
    """The changes of one batch."""

    def __init__(self, connection: Any, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables
        self._rewritten: set[int] = set()  # tables whose rows the source has made anew

    def make(self, entry: SchemaEntry) -> None:
        """Make the changes of one command."""
        self._rewritten |= {change.oid for change in entry.changes if change.rewritten}
        for change in entry.changes:
            if change.definition.get("kind") == "table":
                self._make(change)
                logger.info("schema changed", tag=entry.tag, entry=entry.id, objects=entry.objects)
            elif change.definition.get("kind") == "schema":
                self._rename_schema(change)
        self._tables.forget()

    def _make(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if new is None:
            if old is not None:
                name = self._tables.name((old.schema, old.name))
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")
            return
        if old is not None and old.qualified != new.qualified:
            self._move(old, new)
        if not new.columns or (change.after or {}).get("partitioned_by"):
            return  # no rows of its own
        missing = {
            each["name"]: each["missing"] for each in (change.after or {})["columns"] if "missing" in each
        }
        self._drop_replaced(old, new)
        self._tables.follow(new, missing, may_empty=change.oid in self._rewritten)

    def _drop_replaced(self, old: TableVersion | None, new: TableVersion) -> None:
        """Columns that went while another one took their name: what they have is none of its."""
        numbers = {column.name: column.number for column in new.columns}
        for column in old.columns if old is not None and self._tables.exists(new) else ():
            is_gone = column.number not in numbers.values()
            if is_gone and column.name in numbers:
                name = self._tables.name((new.schema, new.name))
                self._connection.execute(f"ALTER TABLE {name} DROP COLUMN IF EXISTS {quoted(column.name)}")

    def _move(self, old: TableVersion, new: TableVersion) -> None:
        if not self._tables.exists(old):
            return
        if old.schema == new.schema:
            name = self._tables.name((old.schema, old.name))
            self._connection.execute(f"ALTER TABLE {name} RENAME TO {quoted(new.name)}")
        else:
            self._move_to_schema((old.schema, old.name), (new.schema, new.name))

    def _move_to_schema(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """DuckDB itself moves no table from one schema to another."""
        self._tables.make_schema(new[0])
        self._connection.execute(f"CREATE TABLE {self._tables.name(new)} AS FROM {self._tables.name(old)}")
        self._connection.execute(f"DROP TABLE {self._tables.name(old)}")

    def _rename_schema(self, change: ObjectChange) -> None:
        before, after = ((each or {}).get("name", "") for each in (change.before, change.after))
        if before and after and before != after:
            for name in self._tables.names_in(before):
                self._move_to_schema((before, name), (after, name))
