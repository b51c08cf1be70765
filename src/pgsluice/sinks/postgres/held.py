"""What a PostgreSQL target holds, to be compared with what it should hold. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
from psycopg import sql

from pgsluice.postgres.digests import KeyColumn, ServerDigests
from pgsluice.postgres.session import has_relation
from pgsluice.sinks.postgres.progress import PROGRESS, SCHEMA
from pgsluice.sinks.postgres.target import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Comparable
    from pgsluice.sinks.postgres.target import ExistingTable


class PostgresComparison:
    """Looks at a target over one connection."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._tables = Tables(conn, follows=False, makes=False)

    def progress(self, pipeline: str) -> str | None:
        """The token that the target holds."""
        if not has_relation(self._conn, SCHEMA, "progress"):
            return None
        query = f"SELECT token FROM {PROGRESS} WHERE pipeline = %s"  # noqa: S608 - a constant
        row = self._conn.execute(query, (pipeline,)).fetchone()
        return None if row is None else row[0]

    def columns(self, table: TableVersion) -> Mapping[str, str] | None:
        """Names and types of a table's columns, without those that the target fills itself."""
        found = self._tables.look(table)
        if found is None:
            return None
        return {name: column.stored for name, column in found.columns.items() if not column.generated}

    def held(self, table: Comparable) -> ServerDigests:
        """The rows of a table."""
        found, version = self._existing(table), table.version
        name = sql.Identifier(version.schema, version.name)
        names = [column.name for column in version.columns]
        return ServerDigests(
            self._conn,
            sql.SQL("{} AS t" if found.partitioned else "ONLY {} AS t").format(name),
            [sql.Identifier("t", names[place]) for place in table.columns],
            [sql.Identifier("t", names[place]) for place in table.key],
            [
                KeyColumn(names[place], held.stored, held.equality)
                for place in table.key
                for held in [found.columns[names[place]]]
            ],
        )

    def expected(self, table: Comparable, rows: pa.Table) -> ServerDigests:
        """Rows that are sent, as values of the columns of a table."""
        found, version, values = self._existing(table), table.version, rows["values"]
        places = sorted({*table.columns, *table.key}) or [0]  # rows that are only counted need one, too
        names = {place: sql.Identifier(f"c{place}") for place in places}
        cells = {
            place: sql.SQL("t.{}::{}").format(names[place], sql.SQL(held.stored))
            for place in places
            for held in [found.columns[version.columns[place].name]]
        }
        sent = [sql.Literal(pc.list_element(values, place).to_pylist()) for place in places]
        return ServerDigests(
            self._conn,
            sql.SQL("unnest({}) AS t({})").format(
                sql.SQL(", ").join(sql.SQL("{}::text[]").format(each) for each in sent),
                sql.SQL(", ").join(names.values()),
            ),
            [cells[place] for place in table.columns],
            [cells[place] for place in table.key],
        )

    def _existing(self, table: Comparable) -> ExistingTable:
        found = self._tables.look(table.version)
        assert found is not None, "it has columns"
        return found
