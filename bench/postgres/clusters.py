"""
Two clusters of the same version and with the same settings: a source, and a target for whoever writes.

Every measurement has a database of its own on the target, made of a template, so that each begins with the
same files.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from bench.capture.checksum import source_checksum
from bench.capture.scene import SETTINGS, Scene, scene
from bench.harness import Usage, measure_files
from pgsluice.embedded import EmbeddedPostgres
from pgsluice.observability.logs import configure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.capture.checksum import Checksum
    from bench.harness import Figure, Options

EMPTY: Final = "template1"
_MILLION: Final = 1_000_000
_LARGE: Final = 5  # times the rows of other figures
_WARM_ROWS: Final = 200_000


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A table of the source with a key, one index, and rows that nobody changes."""

    name: str
    rows: int
    checksum: Checksum


class Clusters:
    """The source, which also has what figures share with the group ``capture``, and the target."""

    def __init__(self, source: Scene, target: EmbeddedPostgres) -> None:
        self.source = source
        self.target = target
        self._numbers = itertools.count(1)

    @property
    def options(self) -> Options:
        """What the run was asked for."""
        return self.source.options

    def warm_runs(self, count: int) -> range:
        """How often to go a way before the clock starts; once is enough for a quick look."""
        return range(count if self.options.full else 1)

    def target_url(self, database: str) -> str:
        """The address of a database of the target, without TLS."""
        return f"{self.target.url_of(database)}?sslmode=disable"

    def connect_target(self, database: str) -> psycopg.Connection[Any]:
        """A superuser's connection in autocommit."""
        return psycopg.connect(self.target_url(database), autocommit=True)

    def make_database(self, name: str, template: str = EMPTY) -> None:
        """A database of the target, on its disk before anything is measured."""
        with self.connect_target("postgres") as admin:
            admin.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
            admin.execute("CHECKPOINT")

    @contextmanager
    def database(self, template: str = EMPTY) -> Iterator[str]:
        """A database of one measurement."""
        name = f"run_{next(self._numbers)}"
        self.make_database(name, template)
        try:
            yield name
        finally:
            with self.connect_target("postgres") as admin:
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    @cached_property
    def large(self) -> FilledTable:
        """What is copied and read as a whole."""
        return self.fill("large", _LARGE * self.options.rows)

    @cached_property
    def warm_up(self) -> FilledTable:
        """Enough rows that what they go through is compiled before the clock starts."""
        return self.fill("warm_up", min(_WARM_ROWS, self.options.rows))

    def fill(self, name: str, rows: int) -> FilledTable:
        """Make a table of the source."""
        with self.source.connect() as conn:
            self.source.make_table(conn, name)
            self.add_index(conn, name)
            self.source.insert(conn, name, 1, rows)
            conn.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(name)))
            conn.execute("CHECKPOINT")
            return FilledTable(name, rows, source_checksum(conn, name))

    def add_index(self, conn: psycopg.Connection[Any], table: str) -> None:
        """The index that a table has beside its key."""
        conn.execute(sql.SQL("CREATE INDEX ON {} (changed_at)").format(sql.Identifier(table)))

    def require_equal(self, database: str, table: str, checksum: Checksum, whose: str) -> None:
        """Refuse a table of the target that is not what the source holds."""
        with self.connect_target(database) as conn:
            checksum.require(source_checksum(conn, table), f"{table}, written by {whose},")

    def servers(self) -> dict[str, int]:
        """The process ids of both servers, whose descendants do their work."""
        return {"source": _postmaster(self.source.server), "target": _postmaster(self.target)}


@contextmanager
def clusters(options: Options) -> Iterator[Clusters]:
    """Both clusters, gone at the end."""
    with (
        scene(options) as source,
        EmbeddedPostgres(source.directory / "target", SETTINGS) as target,
    ):
        yield Clusters(source, target)


def measure_on_clusters(group: str, files: Sequence[str], options: Options) -> Iterator[Figure]:
    """The figures of a group's files, over one pair of clusters."""
    configure(level="error", format="console", color=False)
    with clusters(options) as pair:
        yield from measure_files(group, files, pair, options)


def per_million(usage: Usage, rows: int) -> Usage:
    """The same work for a million rows: CPU grows with them, memory does not."""
    return Usage(
        {role: seconds * _MILLION / rows for role, seconds in usage.cpu_seconds.items()}, usage.peak_bytes
    )


def _postmaster(server: EmbeddedPostgres) -> int:
    return int((server.data_directory / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
