"""
Group ``schema``: what the event triggers cost a statement that changes the schema.

The same statements, in turn, in a database that notes them and in one that does not; both have some hundred
tables already. The figure is a statement's time as its client sees it, in autocommit.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from bench.capture import versions
from bench.harness import Sample, figure
from pgsluice.embedded import EmbeddedPostgres
from pgsluice.observability.logs import configure
from pgsluice.source.install import InitOptions, init

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure, Options

__all__ = ["figure_names", "measure", "versions"]

_TABLES: Final = 300
_STATEMENTS: Final = {
    "CREATE TABLE": "CREATE TABLE made_{n} (id bigint PRIMARY KEY, a text NOT NULL, b numeric DEFAULT 0)",
    "ALTER TABLE, a column": "ALTER TABLE t{n} ADD COLUMN c{n} text DEFAULT 'x'",
    "CREATE INDEX": "CREATE INDEX ON t{n} (b)",
    "COMMENT": "COMMENT ON TABLE t{n} IS 'about {n}'",
    "DROP TABLE": "DROP TABLE made_{n}",
}


def figure_names() -> tuple[str, ...]:
    """One file has them all."""
    return ()


def measure(options: Options) -> Iterator[Figure]:
    """Each statement with and without triggers."""
    configure(level="error", format="console", color=False)
    times = 100 if options.full else 20
    with tempfile.TemporaryDirectory(prefix="pgsluice-bench-") as place:
        Path(place).chmod(0o755)
        with EmbeddedPostgres(Path(place) / "pg") as server:
            plain, noting = (_database(server, name) for name in ("plain", "noting"))
            init(noting, InitOptions())
            taken = _measured(plain, noting, times, options.repetitions)
    for name in _STATEMENTS:
        yield figure(f"{name}: without triggers", "ms", taken[name, plain])
        yield figure(f"{name}: noted", "ms", taken[name, noting], reference=taken[name, plain])


def _database(server: EmbeddedPostgres, name: str) -> str:
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}")
    url = server.url_of(name)
    with psycopg.connect(url, autocommit=True) as conn:
        for number in range(_TABLES):
            conn.execute(f"CREATE TABLE t{number} (id int PRIMARY KEY, a text, b numeric)")
    return url


def _measured(plain: str, noting: str, times: int, repetitions: int) -> dict[tuple[str, str], list[Sample]]:
    taken: dict[tuple[str, str], list[Sample]] = {}
    with psycopg.connect(plain, autocommit=True) as one, psycopg.connect(noting, autocommit=True) as other:
        for repetition in range(repetitions):
            for name, statement in _STATEMENTS.items():
                for url, conn in ((plain, one), (noting, other)):
                    started = time.monotonic()
                    for number in range(repetition * times, (repetition + 1) * times):
                        conn.execute(statement.format(n=number % _TABLES).encode())
                    milliseconds = (time.monotonic() - started) * 1000 / times
                    taken.setdefault((name, url), []).append(Sample(milliseconds))
    return taken
