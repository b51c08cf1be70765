"""Rows that are sent beside libpq: the server takes them, refuses them, talks back or goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.postgres.copy_in import copy_in
from pgsluice.postgres.session import is_encrypted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.fix_pg import Database

INTO = b"COPY t (id, v) FROM STDIN"


@pytest.fixture
def conn(database: Database) -> Iterator[psycopg.Connection]:
    """A connection without encryption, in autocommit."""
    plain = f"{database.url}?sslmode=disable&gssencmode=disable"
    with psycopg.connect(plain, autocommit=True) as conn:
        assert not is_encrypted(conn)
        conn.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        yield conn


def lines(first: int, count: int, value: str = "x") -> memoryview:
    """Rows as COPY's text."""
    return memoryview("".join(f"{n}\t{value}\n" for n in range(first, first + count)).encode())


def count(conn: psycopg.Connection) -> int:
    """The rows of the table."""
    row = conn.execute("SELECT count(*) FROM t").fetchone()
    assert row is not None
    return int(row[0])


def test_pieces_of_any_size(conn: psycopg.Connection) -> None:
    """None, small ones, and a row that is larger than a message may be."""
    with conn.transaction(), copy_in(conn, INTO) as copy:
        copy.write(memoryview(b""))
        for first in range(0, 50_000, 10_000):
            copy.write(lines(first, 10_000))
        copy.write(memoryview(b"-1\t" + b"y" * (40 << 20) + b"\n"))
    assert copy.rows == 50_001
    assert conn.execute("SELECT length(v) FROM t WHERE id = -1").fetchone() == (40 << 20,)
    with conn.transaction(), copy_in(conn, INTO) as empty:
        pass
    assert (empty.rows, count(conn)) == (0, 50_001)


def send(conn: psycopg.Connection, pieces: Iterable[memoryview]) -> None:
    """One COPY in one transaction."""
    with conn.transaction(), copy_in(conn, INTO) as copy:
        for piece in pieces:
            copy.write(piece)


def test_a_block_that_fails_writes_nothing(conn: psycopg.Connection) -> None:
    """The error is its own, and the connection goes on."""

    def pieces() -> Iterator[memoryview]:
        yield lines(0, 1000)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        send(conn, pieces())
    assert count(conn) == 0


def test_a_row_that_is_refused(conn: psycopg.Connection) -> None:
    """Whatever is sent after it; the error is the server's."""
    conn.execute("INSERT INTO t VALUES (5)")
    with pytest.raises(psycopg.errors.UniqueViolation, match="t_pkey"):
        send(conn, (lines(first, 50_000) for first in range(0, 500_000, 50_000)))
    assert count(conn) == 1
    conn.execute("DROP TABLE t")
    with pytest.raises(psycopg.errors.UndefinedTable):
        send(conn, [])


@pytest.mark.timeout(120)
def test_a_server_that_talks_back(conn: psycopg.Connection) -> None:
    """More notices than both sockets hold: they are taken while rows are sent, else both would wait."""
    conn.execute(
        "CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE NOTICE '%', repeat('n', 1000); RETURN NEW; END $$"
    )
    conn.execute("CREATE TRIGGER says BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION say()")
    send(conn, (lines(first, 4000, "v" * 1000) for first in range(0, 40_000, 4000)))
    assert count(conn) == 40_000


def test_a_server_that_goes_away(conn: psycopg.Connection, database: Database) -> None:
    """In the middle of the rows: one error of the kind that is tried again."""

    def pieces() -> Iterator[memoryview]:
        yield lines(0, 1000)
        database.run(f"SELECT pg_terminate_backend({conn.info.backend_pid}, 5000)")
        for first in range(1000, 2_000_000, 100_000):
            yield lines(first, 100_000)

    with pytest.raises(psycopg.OperationalError):
        send(conn, pieces())
    assert database.rows("SELECT count(*) FROM t") == [(0,)]
