"""A pipeline into a target that refuses some rows, and what the tests of dead letters look at."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import duckdb

from pgsluice import BatchOptions, DuckDBSink, Pipeline, PostgresSink, PostgresSource
from pgsluice.state.dead_letter import LetterBook

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.sinks.base import Sink
    from pgsluice.state.dead_letter import Letter
    from tests.fix_pg import Database

DRIVER = BatchOptions(small_bytes=1 << 40)  # everything on the driver
EACH = BatchOptions(max_changes=1)  # a transaction at a time: else only what they leave counts
TASKS = BatchOptions(decode="tasks", small_bytes=0, without_spark_bytes=0)  # everything through tasks


class Target(ABC):
    """A target, with a rule of its own: no row whose n is 13."""

    @abstractmethod
    def sink(self) -> Sink:
        """A new sink on it."""

    @abstractmethod
    def run(self, *statements: str) -> None:
        """Change it behind the sink's back."""

    @abstractmethod
    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, as text, sorted."""

    def refuse(self, *tables: str) -> None:
        """Make the tables, which refuse 13."""
        for table in tables or ("item",):
            self.run(self.create(table))

    def create(self, table: str) -> str:
        """The statement that makes a table with the rule."""
        key = "" if table == "bag" else self.key
        return f"CREATE TABLE public.{table} (id int{key}, n int CONSTRAINT luck CHECK (n <> 13), t text)"

    key = ""

    @abstractmethod
    def mend(self, *tables: str) -> None:
        """Let the target take everything."""


class Postgres(Target):
    """Another database."""

    key = " PRIMARY KEY"

    def __init__(self, database: Database) -> None:
        self._database = database

    def sink(self) -> Sink:
        """A new sink on it."""
        return PostgresSink(self._database.url)

    def run(self, *statements: str) -> None:
        """Change it behind the sink's back."""
        self._database.run(*statements)

    def mend(self, *tables: str) -> None:
        """Let the target take everything."""
        self.run(*(f"ALTER TABLE {table} DROP CONSTRAINT luck" for table in tables or ("item",)))

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, as text, sorted."""
        return source_rows(self._database, table)


class DuckDB(Target):
    """A DuckDB file. It knows no way to drop a rule, so mending makes the table anew without it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sink(self) -> Sink:
        """A new sink on it."""
        return DuckDBSink(self.path)

    def run(self, *statements: str) -> None:
        """Change it behind the sink's back."""
        with duckdb.connect(str(self.path)) as connection:
            connection.execute("CREATE SCHEMA IF NOT EXISTS public")
            for statement in statements:
                connection.execute(statement)

    def create(self, table: str) -> str:
        """The statement that makes a table with the rule."""
        return super().create(table).replace("CONSTRAINT luck ", "").replace("int,", "INTEGER,")

    def mend(self, *tables: str) -> None:
        """Let the target take everything."""
        for table in tables or ("item",):
            self.run(
                f"ALTER TABLE public.{table} RENAME TO old",
                f"CREATE TABLE public.{table} (id INTEGER, n INTEGER, t VARCHAR)",
                f"INSERT INTO public.{table} FROM public.old",
                "DROP TABLE public.old",
            )

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, as text, sorted."""
        with duckdb.connect(str(self.path), read_only=True) as connection:
            return _sorted(connection.execute(f"SELECT * FROM public.{table}").fetchall())


def source_rows(database: Database, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table of a database, in the same form."""
    return _sorted(database.rows(f"SELECT * FROM {table}"))


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def pipeline(source: Database, target: Target, place: Path, **options: Any) -> Pipeline:
    """A pipeline that carries changes only and puts refused rows aside."""
    return Pipeline(
        PostgresSource(source.url, keyless="full", init=True),
        target.sink(),
        state_dir=place / "state",
        **{"mode": "replication", "on_error": "dead_letter", **options},
    )


def prepare(source: Database, place: Path, *tables: str) -> None:
    """Tables on the source, published."""
    for table in tables or ("item",):
        key = "" if table == "bag" else " PRIMARY KEY"
        source.run(f"CREATE TABLE {table} (id int{key}, n int, t text)")
    PostgresSource(source.url, keyless="full").init("main")


def letters(place: Path, *, closed: bool = False) -> list[Letter]:
    """The letters of the pipeline."""
    book = LetterBook(place / "state")
    try:
        return book.letters(closed=closed)
    finally:
        book.close()


def ask(place: Path) -> None:
    """Ask for a replay of everything, as ``dlq replay --all`` does while a run is active."""
    book = LetterBook(place / "state")
    book.ask(book.letters())
    book.close()


def ids(found: list[Letter]) -> list[tuple[str, list[Any]]]:
    """What each letter is about: the operation and its keys."""
    return [(letter.op, [json.loads(key)[0] for key in letter.keys]) for letter in found]
