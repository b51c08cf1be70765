"""Which value DuckDB refused: found after the fact, so that it costs nothing while all is well."""

# ruff: noqa: S608 - identifiers are quoted and values are bound or Arrow; DuckDB has no builder for SQL

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.errors import TargetSchemaError
from pgsluice.schema.type_names import display_name
from pgsluice.sinks.duckdb.sql import first_row

if TYPE_CHECKING:
    from pgsluice.sinks.duckdb.target import TargetTable
    from pgsluice.sinks.fold import Folded

_SAFE_TO_SHOW: Final = ("NaN", "Infinity", "-Infinity")


def misfit(connection: Any, table: TargetTable, folded: Folded) -> TargetSchemaError:
    """The error that names the column whose type can't hold a value."""
    for rows in (folded.insert, folded.patch.rows if folded.patch else None):
        if rows is not None:
            found = _search(connection, table, pa.table({"v": rows}))
            if found is not None:
                return found
    return TargetSchemaError(
        f"a value of {table.version.qualified} does not fit its column in DuckDB",
        table=table.version.qualified,
    )


def _search(connection: Any, table: TargetTable, rows: pa.Table) -> TargetSchemaError | None:
    apart = connection.cursor()  # the transaction of the failed statement is lost
    apart.execute("SET TimeZone = 'UTC'")
    apart.register("pgsluice_suspects", rows)
    try:
        for index, column in enumerate(table.columns):
            cell = f"v[{index + 1}]"
            found = first_row(
                apart,
                f"SELECT count(*), any_value({cell}) FROM temp.main.pgsluice_suspects "
                f"WHERE {cell} IS NOT NULL AND TRY({column.type.value(cell)}) IS NULL",
            )
            if found is not None and found[0]:
                return _described(table, index, *found)
    finally:
        apart.close()
    return None


def _described(table: TargetTable, index: int, count: int, example: str) -> TargetSchemaError:
    column, source = table.columns[index], table.version.columns[index]
    shown = f" ({example})" if example in _SAFE_TO_SHOW else ""
    return TargetSchemaError(
        f"{count} value{'s' if count > 1 else ''}{shown} of the column {column.name!r} of "
        f"{table.version.qualified}, {display_name(source.type)} in PostgreSQL, can't be held by DuckDB's "
        f"{column.type.name}",
        remedy="Alter the DuckDB column to VARCHAR, which keeps the text, or set misfits: nullify",
        table=table.version.qualified,
        column=column.name,
    )
