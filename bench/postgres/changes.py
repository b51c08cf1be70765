"""
Backlogs: changes of one table behind a slot, and the target's table as it was before them.

The last transaction of each writes one row into a table of its own. Whoever has brought that row has brought
everything.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from bench.capture.checksum import source_checksum
from bench.capture.scene import DataSet, portions
from bench.postgres.commands import copy_pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from bench.postgres.clusters import Clusters

INSERTING_TRANSACTIONS: Final = 10
MIXED_TRANSACTION: Final = 10  # changes: 4 inserts, 4 updates, 2 deletes


@dataclass(frozen=True, slots=True)
class Backlog:
    """Changes that wait."""

    name: str
    data: DataSet
    marker: str  # the table that the last transaction writes to
    template: str  # the target's database as it was before

    def discard(self, pair: Clusters) -> None:
        """Let the WAL and the files go."""
        pair.source.drop_slot(self.data.slot)
        with pair.connect_target("postgres") as admin:
            admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(self.template)))


def inserts(pair: Clusters, name: str, rows: int) -> Backlog:
    """Rows into an empty table, in ten transactions."""

    def write(conn: psycopg.Connection[Any]) -> int:
        for first, last in portions(rows, INSERTING_TRANSACTIONS):
            pair.source.insert(conn, name, first, last)
        return rows

    return _backlog(pair, name, 0, write)


def updates(pair: Clusters, name: str, rows: int) -> Backlog:
    """Every row of a table, in one transaction."""

    def write(conn: psycopg.Connection[Any]) -> int:
        pair.source.update_rows(conn, name, 1, rows)
        return rows

    return _backlog(pair, name, rows, write)


def deletes(pair: Clusters, name: str, rows: int) -> Backlog:
    """Every second row of a table, in one transaction."""

    def write(conn: psycopg.Connection[Any]) -> int:
        conn.execute(sql.SQL("DELETE FROM {} WHERE id % 2 = 0").format(sql.Identifier(name)))
        return rows

    return _backlog(pair, name, 2 * rows, write)


def mix(pair: Clusters, name: str, rows: int) -> Backlog:
    """40 % inserts, 40 % updates and 20 % deletes, in transactions of ten changes."""
    transactions = rows // MIXED_TRANSACTION

    def write(conn: psycopg.Connection[Any]) -> int:
        conn.execute("SET synchronous_commit = off")  # of the writer: its WAL is the same
        conn.execute(
            sql.SQL(_MIX).format(table=sql.Identifier(name), procedure=sql.Identifier(f"{name}_rows"))
        )
        conn.execute(sql.SQL("CALL {}(%s, %s)").format(sql.Identifier(f"{name}_rows")), (transactions, rows))
        conn.execute("RESET synchronous_commit")
        return transactions * MIXED_TRANSACTION

    return _backlog(pair, name, rows, write)


def _backlog(
    pair: Clusters, name: str, rows_before: int, write: Callable[[psycopg.Connection[Any]], int]
) -> Backlog:
    marker, template = f"{name}_done", f"{name}_before"
    with pair.source.connect() as conn:
        pair.source.make_table(conn, name)
        conn.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY)").format(sql.Identifier(marker)))
        conn.execute(
            sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(name), sql.Identifier(marker))
        )
        if rows_before:
            pair.source.insert(conn, name, 1, rows_before)
        _make_template(pair, template, name, marker)
        slot = pair.source.make_slot(conn, f"{name}_master")
        changes = write(conn)
        conn.execute(sql.SQL("INSERT INTO {} VALUES (1)").format(sql.Identifier(marker)))
        checksum = source_checksum(conn, name)
    return Backlog(name, DataSet(pair.source.url, name, name, slot, changes, checksum), marker, template)


def _make_template(pair: Clusters, template: str, table: str, marker: str) -> None:
    pair.make_database(template)
    with pair.connect_target(template) as conn:
        pair.source.make_table(conn, table)
        conn.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(table)))
        conn.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY)").format(sql.Identifier(marker)))
    subprocess.run(copy_pipe(pair, table, template), shell=True, check=True)
    with pair.connect_target(template) as conn:
        conn.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(table)))


# Deleted keys are the first fifth, updated ones are spread over the others, inserted ones follow the last.
_MIX: Final = """
CREATE PROCEDURE {procedure}(transactions int8, rows int8) LANGUAGE plpgsql AS $$
DECLARE
    deleted int8 := 2 * transactions;
BEGIN
    FOR t IN 0 .. transactions - 1 LOOP
        INSERT INTO {table}
        SELECT rows + 4 * t + n, n, 'SKU-' || t, md5(t::text) || n, t / 100.0, now(), n % 2 = 0, t * 0.125
        FROM generate_series(1, 4) n;
        UPDATE {table} SET quantity = quantity + 1, price = price + 1, score = score + 0.5
        WHERE id = ANY (ARRAY(
            SELECT deleted + 1 + (4 * t + n) * 7919 % (rows - deleted) FROM generate_series(0, 3) n));
        DELETE FROM {table} WHERE id IN (2 * t + 1, 2 * t + 2);
        COMMIT;
    END LOOP;
END $$"""
