"""
The place where the group measures: a private PostgreSQL, data sets with their slots, a Spark session.

A slot is used up by reading it. So each data set keeps one slot from before its first row, and every
measurement reads a copy of that slot: the same changes, written once.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from bench.capture.checksum import Checksum, source_checksum
from pgsluice.embedded import EmbeddedPostgres
from pgsluice.pipeline.session import LazySpark, SparkOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Options

ROOT: Final = Path(__file__).resolve().parents[2]  # where ``python -m bench…`` works
SETTINGS: Final = {
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "max_replication_slots": "40",
    "max_wal_senders": "10",
    "log_min_messages": "warning",
}
TRANSACTIONS: Final = 10

# Eight columns, about 170 bytes a row as pgoutput sends it.
_TABLE: Final = """
    CREATE TABLE {} (
        id int8 PRIMARY KEY, quantity int4 NOT NULL, sku text NOT NULL, description text NOT NULL,
        price numeric(12,2) NOT NULL, changed_at timestamptz NOT NULL, active bool NOT NULL,
        score float8 NOT NULL)"""
_INSERT: Final = """
    INSERT INTO {}
    SELECT i, i %% 1000, 'SKU-' || lpad(i::text, 8, '0'), md5(i::text) || substr(md5((i + 1)::text), 1, 28),
           (i %% 1000000) / 100.0, timestamptz '2024-01-01 00:00:00+00' + i * interval '1.000001 s',
           i %% 3 = 0, i * 0.125
    FROM generate_series(%s::int8, %s::int8) i"""
_UPDATE: Final = """
    UPDATE {} SET quantity = quantity + 1, description = reverse(description), price = price + 1,
                  changed_at = changed_at + interval '1 day', score = score + 0.5
    WHERE id BETWEEN %s AND %s"""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Changes of one table, the slot from before them, and what the table holds after them."""

    url: str
    table: str
    publication: str
    slot: str
    changes: int
    checksum: Checksum


class Scene:
    """A server for the benchmarks, and what the figures share."""

    def __init__(self, directory: Path, server: EmbeddedPostgres, options: Options) -> None:
        self.directory = directory
        self.server = server
        self.options = options
        self.spark = LazySpark(SparkOptions())
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        """The server's address, without TLS."""
        return f"{self.server.url}?sslmode=disable"

    @cached_property
    def inserts(self) -> DataSet:
        """The rows of most figures, inserted in ten transactions."""
        return self.write("inserts", self.options.rows)

    @cached_property
    def warm_up(self) -> DataSet:
        """Enough rows that the JVM has compiled what they go through, before the clock starts."""
        return self.write("warm_up", 200_000)

    def write(self, table: str, rows: int, *, transactions: int = TRANSACTIONS) -> DataSet:
        """Make a table, its publication and a slot, then insert the rows."""
        with self.connect() as connection:
            self.make_table(connection, table)
            slot = self.make_slot(connection, f"{table}_master")
            for first, last in portions(rows, transactions):
                connection.execute(_named(_INSERT, table), (first, last))
            return self._data_set(connection, table, slot, rows)

    def update(self, table: str, rows: int) -> DataSet:
        """Update the first rows of a table in ten transactions, behind a slot of their own."""
        with self.connect() as connection:
            slot = self.make_slot(connection, f"{table}_updates_master")
            for first, last in portions(rows, TRANSACTIONS):
                self.update_rows(connection, table, first, last)
            return self._data_set(connection, table, slot, rows)

    def update_rows(self, connection: psycopg.Connection[Any], table: str, first: int, last: int) -> None:
        """Update rows; commits only when the connection does so by itself."""
        connection.execute(_named(_UPDATE, table), (first, last))

    def make_table(self, connection: psycopg.Connection[Any], table: str) -> None:
        """An empty table with a publication of the same name."""
        connection.execute(_named(_TABLE, table))
        connection.execute(_named("CREATE PUBLICATION {0} FOR TABLE {0}", table))

    def make_slot(self, connection: psycopg.Connection[Any], name: str) -> str:
        """A slot that stands at the present end of the WAL."""
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
        return name

    def insert(self, connection: psycopg.Connection[Any], table: str, first: int, last: int) -> None:
        """Insert rows; commits only when the connection does so by itself."""
        connection.execute(_named(_INSERT, table), (first, last))

    def copy_slot(self, master: str) -> str:
        """A slot that stands where ``master`` does."""
        name = f"copy_{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", (master, name))
        return name

    def drop_slot(self, name: str) -> None:
        """Drop a slot, once the server has seen its reader go."""
        with self.connect() as connection:
            connection.execute(sql.SQL(_WAIT_AND_DROP).format(sql.Literal(name)))

    @contextmanager
    def slot_of(self, data: DataSet) -> Iterator[str]:
        """A slot of one measurement."""
        name = self.copy_slot(data.slot)
        try:
            yield name
        finally:
            self.drop_slot(name)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory for one measurement."""
        path = Path(tempfile.mkdtemp(dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def connect(self) -> psycopg.Connection[Any]:
        """A superuser's connection in autocommit."""
        return psycopg.connect(self.url, autocommit=True)

    def _data_set(self, connection: psycopg.Connection[Any], table: str, slot: str, changes: int) -> DataSet:
        return DataSet(self.url, table, table, slot, changes, source_checksum(connection, table))


@contextmanager
def scene(options: Options, *, bin_dir: Path | None = None) -> Iterator[Scene]:
    """A scene with a server of its own, gone at the end."""
    directory = Path(tempfile.mkdtemp(prefix="pgsluice-bench-"))
    directory.chmod(0o711)  # for root the server runs as somebody else, who has to get through
    try:
        with EmbeddedPostgres(directory / "server", SETTINGS, bin_dir=bin_dir) as server:
            made = Scene(directory, server, options)
            try:
                yield made
            finally:
                made.spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def portions(rows: int, transactions: int) -> list[tuple[int, int]]:
    """The first and last key of each transaction."""
    ends = [rows * number // transactions for number in range(transactions + 1)]
    return [(first + 1, last) for first, last in itertools.pairwise(ends)]


# The walsender of a client that has just gone may hold the slot for a moment.
_WAIT_AND_DROP: Final = """
    DO $$ BEGIN
        FOR attempt IN 1..500 LOOP
            EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = {0} AND active);
            PERFORM pg_sleep(0.02);
        END LOOP;
        PERFORM pg_drop_replication_slot({0});
    END $$"""


def _named(text: str, table: str) -> sql.Composed:
    return sql.SQL(text).format(sql.Identifier(table))
