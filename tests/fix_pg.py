"""
Real PostgreSQL servers and fresh databases for tests.

``pg18`` is the server of the wheel, ``pg15`` Debian's; each starts once per run, when first asked for.
``pg`` is 18, and both for tests marked ``both_versions``; ``database`` is a fresh one on ``pg``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from pgsluice.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")

# A crash of the server loses nothing that the system still has in memory: fsync would only cost time here.
_SETTINGS = {
    "fsync": "off",
    "max_prepared_transactions": "4",
    "max_connections": "60",
    "log_min_messages": "warning",
}
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Database:
    """A database of its own for one test."""

    name: str
    server: EmbeddedPostgres

    @property
    def url(self) -> str:
        """The superuser's URL."""
        return self.server.url_of(self.name)

    def url_as(self, role: str, password: str) -> str:
        """The URL of another role."""
        return f"postgresql://{quote(role)}:{quote(password)}@127.0.0.1:{self.server.port}/{self.name}"

    def connect(self) -> psycopg.Connection:
        """A superuser's connection in autocommit."""
        return psycopg.connect(self.url, autocommit=True)

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        with self.connect() as conn:
            for statement in statements:
                conn.execute(statement)

    def rows(self, query: str) -> list[tuple]:
        """The rows of a query."""
        with self.connect() as conn:
            return conn.execute(query).fetchall()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked ``both_versions`` on each server."""
    if "pg" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_versions"):
        metafunc.parametrize("pg", ["pg15", "pg18"], indirect=True)


@pytest.fixture(scope="session")
def pg18() -> Iterator[EmbeddedPostgres]:
    """PostgreSQL 18, from the wheel."""
    yield from _serve(None)


@pytest.fixture(scope="session")
def pg15() -> Iterator[EmbeddedPostgres]:
    """PostgreSQL 15, from Debian."""
    if not (DEBIAN_15 / "pg_ctl").exists():
        pytest.fail(f"PostgreSQL 15 is missing: no {DEBIAN_15}. Run: apt-get install postgresql-15")
    yield from _serve(DEBIAN_15)


@pytest.fixture(scope="session")
def physical_only() -> Iterator[EmbeddedPostgres]:
    """PostgreSQL 18 as it is installed: its WAL has not enough in it for logical replication."""
    yield from _serve(None, wal_level="replica")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that other system users, such as the server's, may enter; pytest's own is closed."""
    with tempfile.TemporaryDirectory(prefix="pgsluice-test-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.fixture
def pg(request: pytest.FixtureRequest) -> EmbeddedPostgres:
    """The server of this test."""
    server: EmbeddedPostgres = request.getfixturevalue(getattr(request, "param", "pg18"))
    return server


@pytest.fixture
def database(pg: EmbeddedPostgres) -> Iterator[Database]:
    """A fresh database, dropped afterwards with its slots."""
    fresh = create_database(pg)
    yield fresh
    drop_database(fresh)


@pytest.fixture
def target_database(pg18: EmbeddedPostgres) -> Iterator[Database]:
    """A second fresh database, to be a target."""
    fresh = create_database(pg18)
    yield fresh
    drop_database(fresh)


def create_database(server: EmbeddedPostgres) -> Database:
    """A fresh database on a server."""
    fresh = Database(f"t{os.getpid()}_{next(_numbers)}", server)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(fresh.name)))
    return fresh


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server that a test may crash, with everything durable."""
    place = Path(tempfile.mkdtemp(prefix="pgsluice-test-"))
    place.chmod(0o755)
    with EmbeddedPostgres(place / "pg") as server:
        yield server
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def crashable() -> Iterator[Callable[[int], EmbeddedPostgres]]:
    """Starts servers, 15 or 18, that a test may restart and crash, but not the machine under them."""
    with contextlib.ExitStack() as servers:
        yield lambda version: servers.enter_context(serving(version))


@contextlib.contextmanager
def serving(version: int) -> Iterator[EmbeddedPostgres]:
    """Such a server while a block runs."""
    yield from _serve(DEBIAN_15 if version == 15 else None)


def drop_database(database: Database) -> None:
    """Drop a test's database, its slots and whatever is still connected to it."""
    with psycopg.connect(database.server.url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
            (database.name,),
        )
        admin.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
            (database.name,),
        )
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database.name)))


def _serve(bin_dir: Path | None, **settings: str) -> Iterator[EmbeddedPostgres]:
    # Not pytest's own temporary directory: nobody but root may enter that, and PostgreSQL isn't root.
    directory = Path(tempfile.mkdtemp(prefix="pgsluice-test-"))
    try:
        with EmbeddedPostgres(directory, {**_SETTINGS, **settings}, bin_dir=bin_dir) as server:
            yield server
    finally:
        shutil.rmtree(directory)
