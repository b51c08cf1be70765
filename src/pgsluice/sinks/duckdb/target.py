"""
The tables of the target: made when first seen, widened by new columns, compared with what rows need.

There is no primary key in DuckDB on purpose; ``docs/adr/`` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgsluice.errors import TargetSchemaError
from pgsluice.schema.type_names import display_name
from pgsluice.sinks.duckdb.columns import AS_TEXT, TEXT, ColumnType, column_type
from pgsluice.sinks.duckdb.sql import database_name, folded_case, quoted
from pgsluice.sinks.ready import ReadyTables, table_gone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.schema.table import Column, TableVersion


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a table of the target."""

    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of the target, as rows of one table version are written to it."""

    version: TableVersion
    sql_name: str
    columns: tuple[TargetColumn, ...]  # in the order of the version's columns


class Tables(ReadyTables[TargetTable]):
    """Knows the tables of one DuckDB file."""

    def __init__(self, connection: Any, *, lists: bool, follows: bool = True) -> None:
        super().__init__(self._make_ready)
        self._follows = follows  # whether tables become what rows need
        self._connection = connection
        self._lists = lists
        self._database = database_name(connection)

    def name(self, table: tuple[str, str]) -> str:
        """A table's name in SQL, from its schema and name."""
        return quoted(self._database, *table)

    def names_in(self, schema: str) -> list[str]:
        """The tables of a schema."""
        found = self._connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = ? AND schema_name = ?",
            [self._database, schema],
        )
        return [name for (name,) in found.fetchall()]

    def exists(self, version: TableVersion) -> bool:
        """Whether there is a table of that name."""
        return self.existing_columns(version) is not None

    def make_schema(self, schema: str) -> None:
        """Make a schema, if it is not there."""
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self._database, schema)}")

    def follow(
        self,
        version: TableVersion,
        missing: Mapping[str, str],
        *,
        retypes: bool = True,
        may_empty: bool = False,
    ) -> dict[str, str]:
        """
        Make a table what the source's has become; gives its columns.

        Args:
            missing: what older rows have in columns that are new, as text.
            retypes: whether columns get other types: not by rows alone, whose values may be new ones.
            may_empty: its rows come anew: those that can't become what the source's are may go.
        """
        existing = self.existing_columns(version)
        if existing is None:
            return self._create(version)
        name = self.name((version.schema, version.name))
        left = {*existing} - {column.name for column in version.columns}
        for column in self._wanted(version):
            source = next(each for each in version.columns if each.name == column.name)
            former = version.former_names(source) & left
            if column.name in existing:
                if retypes:
                    self._retype(name, column, existing, may_empty=may_empty)
            elif len(former) == 1:
                (before,) = former
                left -= former
                self._connection.execute(
                    f"ALTER TABLE {name} RENAME COLUMN {quoted(before)} TO {quoted(column.name)}"
                )
                if retypes:
                    self._retype(name, column, {column.name: existing[before]}, may_empty=may_empty)
            else:
                self._add(name, column, missing)
        for gone in sorted(left & version.dropped_names):
            self._connection.execute(f"ALTER TABLE {name} DROP COLUMN {quoted(gone)}")
        return self.existing_columns(version) or {}

    def _add(self, name: str, column: TargetColumn, missing: Mapping[str, str]) -> None:
        self._connection.execute(f"ALTER TABLE {name} ADD COLUMN {_definition(column)}")
        if column.name in missing:
            value = column.type.value("CAST($1 AS VARCHAR)")
            self._connection.execute(
                f"UPDATE {name} SET {quoted(column.name)} = {value}",  # noqa: S608 - quoted
                [missing[column.name]],
            )

    def _retype(
        self, name: str, column: TargetColumn, existing: Mapping[str, str], *, may_empty: bool
    ) -> None:
        """A column of text stays one: it takes everything."""
        if existing[column.name] in (column.type.name, TEXT):
            return
        if may_empty:
            self._connection.execute(f"DELETE FROM {name}")  # noqa: S608 - quoted
        self._connection.execute(
            f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} TYPE {column.type.name}"
        )

    def _create(self, version: TableVersion) -> dict[str, str]:
        wanted = self._wanted(version)
        body = ", ".join(_definition(column) for column in wanted)
        self.make_schema(version.schema)
        self._connection.execute(f"CREATE TABLE {self.name((version.schema, version.name))} ({body})")
        return {column.name: column.type.name for column in wanted}

    def _wanted(self, version: TableVersion) -> list[TargetColumn]:
        return [
            TargetColumn(column.name, column_type(column.type, lists=self._lists))
            for column in version.columns
        ]

    def holds(self, version: TableVersion) -> bool:
        """Whether there is a table of that name that was made beside another one, for this version."""
        found = self._connection.execute(
            "SELECT comment FROM duckdb_tables()"
            " WHERE database_name = ? AND schema_name = ? AND table_name = ?",
            [self._database, version.schema, version.name],
        ).fetchone()
        return bool(found == (version.shape,))

    def _make_ready(self, version: TableVersion, held: bool) -> TargetTable:
        _check_columns(version)
        _check_column_names(version)
        _check_row_numbers(version)
        existing = self.existing_columns(version)
        if existing is None:
            if held:
                raise table_gone(version)
            existing = self._create(version)
        elif self._follows:
            existing = self.follow(version, {}, retypes=False)
        _check_dropped(version, existing)
        _check_missing(version, existing)
        columns = [
            _agreed(version, source, column, existing[column.name])
            for column, source in zip(self._wanted(version), version.columns, strict=True)
        ]
        return TargetTable(version, self.name((version.schema, version.name)), tuple(columns))

    def agreed(self, version: TableVersion) -> dict[int, TargetColumn]:
        """How those columns of a version are written that its table has, by their places; nothing is made."""
        existing = self.existing_columns(version) or {}
        columns = enumerate(zip(self._wanted(version), version.columns, strict=True))
        return {
            place: _agreed(version, source, column, existing[column.name])
            for place, (column, source) in columns
            if column.name in existing
        }

    def existing_columns(self, version: TableVersion) -> dict[str, str] | None:
        """Names and types of the columns that the table has; None when there is no such table."""
        schemas = "SELECT schema_name FROM duckdb_schemas() WHERE database_name = ?"
        self._check_case("schema", version.schema, schemas, [self._database])
        tables = "SELECT table_name FROM duckdb_tables() WHERE database_name = ? AND schema_name = ?"
        self._check_case("table", version.name, tables, [self._database, version.schema])
        found = self._connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = ? AND schema_name = ? "
            "AND table_name = ? ORDER BY column_index",
            [self._database, version.schema, version.name],
        ).fetchall()
        return dict(found) or None

    def _check_case(self, what: str, name: str, query: str, values: list[str]) -> None:
        for (other,) in self._connection.execute(query, values).fetchall():
            if other != name and folded_case(other) == folded_case(name):
                raise TargetSchemaError(
                    f"the {what}s {other!r} and {name!r} differ only by case, which DuckDB ignores",
                    remedy="Rename one of them, or leave one out of the pipeline",
                    name=name,
                )


def _definition(column: TargetColumn) -> str:
    return f"{quoted(column.name)} {column.type.name}"


def _check_columns(version: TableVersion) -> None:
    if not version.columns:
        raise TargetSchemaError(
            f"{version.qualified} has no columns, and a table of DuckDB must have one",
            remedy="Leave it out of the pipeline: exclude_tables",
            table=version.qualified,
        )


def _check_column_names(version: TableVersion) -> None:
    seen: dict[str, str] = {}
    for column in version.columns:
        other = seen.setdefault(folded_case(column.name), column.name)
        if other != column.name:
            raise TargetSchemaError(
                f"the columns {other!r} and {column.name!r} of {version.qualified} differ only by case, "
                "which DuckDB ignores",
                remedy="Rename one of them, or leave one out of the publication",
                table=version.qualified,
            )


def _check_row_numbers(version: TableVersion) -> None:
    """A row without a key is found by DuckDB's own number of it, which a column of that name would hide."""
    if not version.merge_key and any(folded_case(column.name) == "rowid" for column in version.columns):
        raise TargetSchemaError(
            f"{version.qualified} has no key and a column named rowid, which DuckDB needs itself",
            remedy="Give the table a primary key, rename the column, or leave the table out",
            table=version.qualified,
        )


def _check_missing(version: TableVersion, existing: dict[str, str]) -> None:
    new = [column.name for column in version.columns if column.name not in existing]
    if new:
        raise TargetSchemaError(
            f"{version.qualified} has columns that the target's table does not have: {', '.join(new)}",
            remedy="Add them in the DuckDB file, then start again; or let it follow the source "
            "(schema_changes: apply)",
            table=version.qualified,
            columns=new,
        )


def _check_dropped(version: TableVersion, existing: dict[str, str]) -> None:
    gone = [name for name in existing if name not in {column.name for column in version.columns}]
    if gone:
        raise TargetSchemaError(
            f"{version.qualified} has no longer the columns that the target's table has: {', '.join(gone)}",
            remedy="Drop or rename them in the DuckDB file as in the source, then start again",
            table=version.qualified,
            columns=gone,
        )


def _agreed(version: TableVersion, source: Column, column: TargetColumn, existing: str) -> TargetColumn:
    """How to write a column of an existing table: as it should be, or as text where that is what it is."""
    if existing == column.type.name:
        return column
    if existing == TEXT:
        return TargetColumn(column.name, AS_TEXT)
    raise TargetSchemaError(
        f"the column {column.name!r} of {version.qualified} is {display_name(source.type)}, which is "
        f"{column.type.name} in DuckDB, but the target's column is {existing}",
        remedy=f"Alter the column in the DuckDB file to {column.type.name}, or to VARCHAR to keep the text",
        table=version.qualified,
        column=column.name,
    )
