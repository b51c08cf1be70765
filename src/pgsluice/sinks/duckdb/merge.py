"""
How the result of a fold is applied to one table.

The rows come as one list column of text, which DuckDB takes from Arrow without a copy, and every value is
made by the one expression of its column. Neighbours: :mod:`pgsluice.sinks.fold` and ``columns``.
"""

# ruff: noqa: S608 - identifiers are quoted and values are bound or Arrow; DuckDB has no builder for SQL

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.errors import RowRefusedError
from pgsluice.sinks.duckdb.sql import first_row, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.sinks.duckdb.target import TargetTable
    from pgsluice.sinks.fold import Folded, Patch

_SOURCE: Final = "pgsluice_rows"
_PATCHED: Final = "temp.main.pgsluice_patched"
_FLOATS: Final = ("FLOAT", "DOUBLE")


class Merge:
    """Applies folds over one connection, inside the caller's transaction."""

    def __init__(self, connection: Any, *, misfits_to_null: bool) -> None:
        self._connection = connection
        self._misfits_to_null = misfits_to_null

    def apply(self, table: TargetTable, folded: Folded) -> None:
        """Apply one fold."""
        if folded.truncated:
            self._connection.execute(f"TRUNCATE {table.sql_name}")
        if folded.patch is not None:
            self._complete(table, folded.patch)
        if folded.delete is not None:
            self._delete(table, folded.delete)
        if folded.patch is not None:
            self._connection.execute(f"INSERT INTO {table.sql_name} ({_names(table)}) FROM {_PATCHED}")
            self._connection.execute(f"DROP TABLE {_PATCHED}")
        if folded.insert is not None:
            self._insert(table, folded.insert)

    def forget(self) -> None:
        """Let go of the rows of a statement that failed; after the transaction was rolled back."""
        self._connection.unregister(_SOURCE)

    def _insert(self, table: TargetTable, rows: pa.ListArray | pa.ChunkedArray) -> None:
        values = ", ".join(
            self.value(table, index, f"r.v[{index + 1}]") for index in range(len(table.columns))
        )
        with self._source(pa.table({"v": rows})) as source:
            self._connection.execute(
                f"INSERT INTO {table.sql_name} ({_names(table)}) SELECT {values} FROM {source} r"
            )

    def _delete(self, table: TargetTable, rows: pa.Table) -> None:
        with self._source(rows) as source:
            if "copies" in rows.column_names:
                self._connection.execute(_delete_copies(table, source))
            else:
                self._connection.execute(
                    f"DELETE FROM {table.sql_name} t USING {source} r WHERE {_same_key(table)}"
                )

    def _complete(self, table: TargetTable, patch: Patch) -> None:
        """Put the missing values into the patch's rows, before anything of the table is deleted."""
        flags = {f"u{index}": missing for index, missing in patch.missing.items()}
        keys = {f"k{i}": patch.base[f"k{i}"] for i in range(patch.base.num_columns)}
        values = []
        for index, column in enumerate(table.columns):
            value = self.value(table, index, f"r.v[{index + 1}]")
            if index in patch.missing:
                value = f"CASE WHEN r.u{index} THEN t.{quoted(column.name)} ELSE {value} END"
            values.append(f"{value} AS c{index}")
        with self._source(pa.table({"v": patch.rows, **keys, **flags})) as source:
            self._connection.execute(
                f"CREATE TEMP TABLE pgsluice_patched AS SELECT {', '.join(values)} "
                f"FROM {source} r JOIN {table.sql_name} t ON {_same_key(table)}"
            )
        (found,) = first_row(self._connection, f"SELECT count(*) FROM {_PATCHED}") or (0,)
        if found != len(patch.rows):
            raise RowRefusedError(
                f"{len(patch.rows) - found} rows of {table.version.qualified} have a large value that the "
                "stream did not send again, and the target lacks the rows that hold it",
                remedy="They are older than the pipeline: put them into the target's table by hand, or leave "
                "the table out with modifiers.filter.exclude_tables",
                table=table.version.qualified,
            )

    def value(self, table: TargetTable, index: int, cell: str) -> str:
        """The SQL that makes a column's value from its text; a key is never made NULL."""
        value = table.columns[index].type.value(cell)
        if self._misfits_to_null and index not in table.version.merge_key:
            return f"TRY({value})"
        return value

    @contextmanager
    def _source(self, rows: pa.Table) -> Iterator[str]:
        self._connection.register(_SOURCE, rows)
        yield f"temp.main.{_SOURCE}"
        # Not in a finally: in a failed transaction this would fail too, and hide why.
        self._connection.unregister(_SOURCE)


def _names(table: TargetTable) -> str:
    return ", ".join(quoted(column.name) for column in table.columns)


def _same_key(table: TargetTable) -> str:
    columns = [table.columns[index] for index in table.version.merge_key]
    return " AND ".join(
        f"t.{quoted(column.name)} = {column.type.value(f'r.k{place}')}"
        for place, column in enumerate(columns)
    )


def _delete_copies(table: TargetTable, source: str) -> str:
    """Delete the first so many of equal rows. Floats are compared as text, which tells 0 from -0."""
    matches = []
    for index, column in enumerate(table.columns):
        stored, given = f"t.{quoted(column.name)}", column.type.value(f"r.k{index}")
        if column.type.name in _FLOATS:
            stored, given = f"CAST({stored} AS VARCHAR)", f"CAST({given} AS VARCHAR)"
        matches.append(f"{stored} IS NOT DISTINCT FROM {given}")
    return (
        f"WITH found AS (SELECT t.rowid AS place, row_number() OVER (PARTITION BY r.number) AS nth, r.copies "
        f"FROM {table.sql_name} t JOIN (SELECT *, row_number() OVER () AS number FROM {source}) r "
        f"ON {' AND '.join(matches)}) "
        f"DELETE FROM {table.sql_name} WHERE rowid IN (SELECT place FROM found WHERE nth <= copies)"
    )
