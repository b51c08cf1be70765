"""
The sinks that the contract suite runs over, each behind a small adapter.

A new sink joins by an adapter here: how to build it, how to read back what the target holds.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import duckdb
from psycopg import sql
from pydantic import SecretStr

from pgsluice.sinks.duckdb import DuckDBConfig
from pgsluice.sinks.duckdb.sink import DuckDBSink
from pgsluice.sinks.duckdb.sql import quoted
from pgsluice.sinks.files import FilesConfig
from pgsluice.sinks.files.sink import FilesSink
from pgsluice.sinks.memory import MemorySink, MemoryStore
from pgsluice.sinks.postgres import PostgresConfig
from pgsluice.sinks.postgres.sink import PostgresSink
from pgsluice.sinks.stdout import StdoutSink
from tests.sinks.files.feed import Feed

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.sinks.base import Guarantee, Sink
    from tests.fix_pg import Database

Row = tuple[str | None, ...]


class Target(ABC):
    """One target, and sinks that write to it."""

    holds: ClassVar[Literal["tables", "lines"]]
    guarantee: ClassVar[Guarantee]
    needs_spark: ClassVar[bool] = False
    needs_database: ClassVar[bool] = False
    copied: ClassVar[bool] = True  # whether the suite copies tables into it
    keeps_all: ClassVar[bool] = False  # every row that ever came, in this process: its memory has no bound

    def __init__(self, directory: Path, database: Database | None = None) -> None:
        self.directory = directory
        self.database = database

    @abstractmethod
    def sink(self) -> Sink:
        """A new sink on this target, as a new run would make it."""

    def close(self) -> None:  # noqa: B027 - most targets hold nothing open
        """Let go of what the target itself holds open."""

    def tables(self) -> dict[str, list[Row]]:
        """What a target of tables holds: by schema.name its rows as text, sorted; no empty tables."""
        raise NotImplementedError

    def lines(self) -> list[dict[str, Any]]:
        """What a target of lines holds, in order."""
        raise NotImplementedError


class MemoryTarget(Target):
    """The reference."""

    holds = "tables"
    guarantee = "exactly once"
    keeps_all = True

    def __init__(self, directory: Path, database: Database | None = None) -> None:
        super().__init__(directory, database)
        self._store = MemoryStore()

    def sink(self) -> Sink:
        """A sink on this target's own store."""
        return MemorySink(self._store)

    def tables(self) -> dict[str, list[Row]]:
        """The rows of every table that has any."""
        return {name: in_order(state.rows) for name, state in self._store.tables.items() if state.rows}


class DuckDBTarget(Target):
    """A DuckDB file."""

    holds = "tables"
    guarantee = "exactly once"

    def sink(self) -> Sink:
        """A sink on this target's file; its folds are small so that a large transaction has several."""
        return DuckDBSink(DuckDBConfig(path=self.directory / "target.duckdb", threads=1, fold_bytes=4096))

    def tables(self) -> dict[str, list[Row]]:
        """The rows of every table that has any, read over a connection of its own."""
        with duckdb.connect(str(self.directory / "target.duckdb")) as connection:
            names = connection.execute(
                "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name <> 'pgsluice'"
            ).fetchall()
            found = {}
            for schema, name in names:
                rows = connection.execute(
                    f"SELECT COLUMNS(*)::VARCHAR FROM {quoted('target', schema, name)}"
                ).fetchall()
                if rows:
                    found[f"{schema}.{name}"] = in_order(rows)
        return found


class PostgresTarget(Target):
    """A database of its own; its folds are small so that a large transaction has several."""

    holds = "tables"
    guarantee = "exactly once"
    needs_database = True

    def sink(self) -> Sink:
        """A sink on this target's database."""
        assert self.database is not None
        return PostgresSink(PostgresConfig(url=SecretStr(self.database.url), fold_bytes=4096))

    def tables(self) -> dict[str, list[Row]]:
        """The rows of every table that has any."""
        assert self.database is not None
        with self.database.connect() as connection:
            names = connection.execute(
                "SELECT schemaname, tablename FROM pg_tables "
                "WHERE schemaname NOT IN ('pgsluice', 'pg_catalog', 'information_schema')"
            ).fetchall()
            found = {}
            for schema, name in names:
                table = sql.Identifier(schema, name)
                with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(table)) as copy:
                    rows = list(copy.rows())  # text, since no types are set
                if rows:
                    found[f"{schema}.{name}"] = in_order(rows)
        return found


class StdoutTarget(Target):
    """A file in the place of standard output."""

    holds = "lines"
    guarantee = "at least once"
    needs_spark = True

    def __init__(self, directory: Path, database: Database | None = None) -> None:
        super().__init__(directory, database)
        self._output = (directory / "lines").open("ab")

    def sink(self) -> Sink:
        """A sink that appends to this target's file."""
        return StdoutSink(self._output)

    def close(self) -> None:
        """Close the file."""
        self._output.close()

    def lines(self) -> list[dict[str, Any]]:
        """The lines, each of which must be JSON."""
        return [json.loads(line) for line in (self.directory / "lines").read_text().splitlines()]


class ParquetTarget(Target):
    """A feed of Parquet files, folded by a plain reader; they are small so that a transaction has several."""

    holds = "tables"
    guarantee = "exactly once"
    format: ClassVar[Literal["parquet", "jsonl"]] = "parquet"

    def sink(self) -> Sink:
        """A sink on this target's directory."""
        return FilesSink(FilesConfig(path=self.directory / "feed", format=self.format, file_bytes=4096))

    def tables(self) -> dict[str, list[Row]]:
        """What the changes leave."""
        return {name: in_order(rows) for name, rows in Feed(self.directory / "feed").tables().items()}


class JsonTarget(ParquetTarget):
    """The same as lines of JSON."""

    format = "jsonl"
    needs_spark = True


class JsonLinesTarget(JsonTarget):
    """Its lines as they are."""

    holds = "lines"
    copied = False  # copied rows have no position in lines; ``json`` reads them in the order of files

    def lines(self) -> list[dict[str, Any]]:
        """The lines of all files."""
        return Feed(self.directory / "feed").lines()


TARGETS: dict[str, type[Target]] = {
    "memory": MemoryTarget,
    "duckdb": DuckDBTarget,
    "postgres": PostgresTarget,
    "stdout": StdoutTarget,
    "parquet": ParquetTarget,
    "json": JsonTarget,
    "jsonlines": JsonLinesTarget,
}


def in_order(rows: list[Row]) -> list[Row]:
    """Rows sorted, NULL first."""
    return sorted(rows, key=lambda row: [(value is not None, value or "") for value in row])
