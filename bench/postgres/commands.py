"""The programs of PostgreSQL as lines for a shell: what people use when they have nothing else."""

from __future__ import annotations

import shlex
import subprocess
import time
from typing import TYPE_CHECKING

from bench.harness import Sample, WrongResultError
from bench.postgres.clusters import per_million
from bench.watch import Watch

if TYPE_CHECKING:
    from bench.postgres.clusters import Clusters


def dump_and_restore(pair: Clusters, table: str, database: str) -> str:
    """Table, key, index and rows, in the custom format through a pipe."""
    dump = _line(pair, "pg_dump", "-Fc", "-t", f"public.{table}", "-d", pair.source.url)
    return f"{dump} | {_line(pair, 'pg_restore', '-d', pair.target_url(database))}"


def copy_pipe(pair: Clusters, table: str, database: str) -> str:
    """The rows alone, by one binary COPY into another."""
    out = _line(pair, "psql", "-qd", pair.source.url, "-c", f"COPY {table} TO STDOUT (FORMAT binary)")
    into = _line(
        pair, "psql", "-qd", pair.target_url(database), "-c", f"COPY {table} FROM STDIN (FORMAT binary)"
    )
    return f"{out} | {into}"


def copy_away(pair: Clusters, table: str) -> str:
    """The rows as text, thrown away."""
    return _line(pair, "psql", "-qd", pair.source.url, "-c", f"COPY {table} TO STDOUT") + " > /dev/null"


def run_line(pair: Clusters, line: str, rows: int) -> Sample:
    """Rows per second of a line, from the start of its programs to their end."""
    started = time.monotonic()
    with (
        subprocess.Popen(["/bin/sh", "-c", line]) as shell,
        Watch({"programs": shell.pid, **pair.servers()}) as watch,
    ):
        failed = shell.wait() != 0
        seconds = time.monotonic() - started
    if failed:
        raise WrongResultError(f"exit code {shell.returncode} of {line.partition(' ')[0]}")
    return Sample(rows / seconds, per_million(watch.usage(), rows))


def _line(pair: Clusters, program: str, *arguments: str) -> str:
    return shlex.join([str(pair.target.bin_dir / program), *arguments])
