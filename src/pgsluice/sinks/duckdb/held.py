"""What a DuckDB file holds, to be compared with what it should hold. Nothing is written."""

# ruff: noqa: S608 - identifiers are quoted and values are bound or Arrow; DuckDB has no builder for SQL

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.sinks.duckdb.progress import SCHEMA
from pgsluice.sinks.duckdb.sql import database_name, first_row, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Comparable, Key, Tally
    from pgsluice.sinks.duckdb.target import Tables

_WITH_ERA: Final = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_SENT: Final = "pgsluice_sent"
_KEYS: Final = "pgsluice_keys"


class DuckDBComparison:
    """Looks at a file over one connection."""

    def __init__(self, connection: Any, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables

    def progress(self, pipeline: str) -> str | None:
        """The token that the file holds."""
        if "progress" not in self._tables.names_in(SCHEMA):
            return None
        table = quoted(database_name(self._connection), SCHEMA, "progress")
        row = first_row(self._connection, f"SELECT token FROM {table} WHERE pipeline = ?", [pipeline])
        return None if row is None else row[0]

    def columns(self, table: TableVersion) -> Mapping[str, str] | None:
        """Names and types of a table's columns."""
        return self._tables.existing_columns(table)

    def held(self, table: Comparable) -> FileDigests:
        """The rows of a table."""
        version = table.version
        types = self._tables.existing_columns(version) or {}
        cells = {
            place: _Cell(quoted(column.name), types[column.name])
            for place, column in enumerate(version.columns)
            if column.name in types
        }
        rows = self._tables.name((version.schema, version.name))
        return FileDigests(self._connection, rows, _chosen(cells, table.columns), _chosen(cells, table.key))

    def expected(self, table: Comparable, rows: pa.Table) -> FileDigests:
        """Rows as the file would hold them: made from texts by the expressions that the sink writes with."""
        self._connection.register(_SENT, rows.select(["values"]))
        columns = self._tables.agreed(table.version)
        cells = {
            place: _Cell(f"TRY({column.type.value(f'values[{place + 1}]')})", column.type.name)
            for place, column in columns.items()
        }
        rows_ = f"temp.main.{_SENT}"
        return FileDigests(self._connection, rows_, _chosen(cells, table.columns), _chosen(cells, table.key))


@dataclass(frozen=True, slots=True)
class _Cell:
    """A value, and the type that it has."""

    sql: str
    type: str

    @property
    def text(self) -> str:
        """The value as PostgreSQL prints it, but for floats: keys are looked up in the source by it."""
        if self.type == "BOOLEAN":
            return f"CASE {self.sql} WHEN true THEN 't' WHEN false THEN 'f' END"
        if self.type == "BLOB":
            return f"'\\x' || lower(hex({self.sql}))"
        text = f"CAST({self.sql} AS VARCHAR)"
        if self.type.startswith("DECIMAL"):  # one without digits before the point prints none
            return rf"regexp_replace({text}, '^(-?)\.', '\10.')"
        if self.type in _WITH_ERA:
            return rf"regexp_replace({text}, '^(.*) \(BC\)(.*)$', '\1\2 BC')"
        return text


@dataclass(frozen=True, slots=True)
class FileDigests:
    """Rows that DuckDB reads."""

    connection: Any
    rows: str  # what stands after FROM
    cells: Sequence[_Cell]
    key: Sequence[_Cell]

    def by_bucket(self, buckets: int) -> dict[int, Tally]:
        """Number and sum of the digests of all rows, by bucket."""
        query = f"SELECT b, count(*), CAST(sum(d) AS VARCHAR) FROM ({self._digests(buckets)}) GROUP BY b"
        found = self.connection.execute(query).fetchall()
        return {bucket: (rows, int(total)) for bucket, rows, total in found}

    def by_key(self, buckets: int, chosen: Sequence[int], keys: Collection[Key] = ()) -> dict[Key, Tally]:
        """The same by key, of some buckets; with ``keys``, of these alone."""
        conditions = "list_contains($1, b)"
        if keys:
            listed = pa.array([list(key) for key in keys], pa.list_(pa.string()))
            self.connection.register(_KEYS, pa.table({"k": listed}))
            conditions += f" AND k IN (SELECT k FROM temp.main.{_KEYS})"
        query = (
            f"SELECT k, count(*), CAST(sum(d) AS VARCHAR) FROM ({self._digests(buckets)}) "
            f"WHERE {conditions} GROUP BY k"
        )
        found = self.connection.execute(query, [list(chosen)]).fetchall()
        return {tuple(key): (rows, int(total)) for key, rows, total in found}

    def _digests(self, buckets: int) -> str:
        row = _listed(f"CAST({cell.sql} AS VARCHAR)" for cell in self.cells)
        key = _listed(cell.text for cell in self.key) if self.key else f"[CAST(hash({row}) AS VARCHAR)]"
        return (
            f"SELECT k, CAST(hash(k) & {buckets - 1} AS INTEGER) AS b, CAST(hash(r) AS HUGEINT) AS d "
            f"FROM (SELECT {key} AS k, {row} AS r FROM {self.rows})"
        )


def _chosen(cells: Mapping[int, _Cell], places: Sequence[int]) -> list[_Cell]:
    return [cells[place] for place in places]


def _listed(texts: Iterable[str]) -> str:
    return f"CAST([{', '.join(texts)}] AS VARCHAR[])"
