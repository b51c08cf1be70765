"""``pgsluice tail``: watch changes as they come, from a pipeline's log or from a temporary slot."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pgsluice.cli.init import selection
from pgsluice.cli.options import (
    ExcludeTables,
    JsonOutput,
    Name,
    Publication,
    SourceUrl,
    StateDir,
    Tables,
    flags,
)
from pgsluice.cli.settings import load_config
from pgsluice.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pgsluice.pipeline.config import Config
    from pgsluice.source.postgres import PostgresSource
    from pgsluice.source.selection import Selection
    from pgsluice.source.temporary import TemporaryLog


def tail(
    context: typer.Context,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    publication: Publication = None,
    tables: Tables = None,
    exclude_tables: ExcludeTables = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Position to begin at: an LSN, or earliest; else now.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many lines.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the protocol's messages, unmodified.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """
    Print changes as they come. Follows a pipeline's log; where there is none, --source-url alone uses a
    temporary slot and leaves nothing behind.
    """
    from pgsluice.changelog.segment import read_meta
    from pgsluice.source.process import listening_process

    config = load_config(
        context,
        flags(
            source_url=source_url, name=name, state_dir=state_dir, publication=publication, tables=tables,
            exclude_tables=exclude_tables,
        ),
    )  # fmt: skip
    view = _View(config, selection(config) if config.source else None, limit, raw, json_output)
    with stopped_by_signals(view.stop):
        if read_meta(config.log_dir) is not None:
            if listening_process(config.log_dir) is None:
                sys.stderr.write(f"nobody writes to {config.log_dir} now: waiting for pgsluice run\n")
            view.show(config.log_dir, start, lambda: None)
            return
        from pgsluice.pipeline.build_source import build_source

        with _temporary(config) as log:
            view.show(log.directory, start or "earliest", log.check, build_source(config))


@dataclass(slots=True)
class _View:
    """What is printed, and until when."""

    config: Config
    tables: Selection | None  # None: all of them
    limit: int | None
    raw: bool
    as_json: bool
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True

    def show(
        self,
        log: Path,
        start: str | None,
        check: Callable[[], None],
        source: PostgresSource | None = None,
    ) -> None:
        """Print lines of a log until stopped; ``check`` raises what ended the stream."""
        from pgsluice.changelog.position import Lsn
        from pgsluice.changelog.reader import LogReader
        from pgsluice.pipeline.follow import Entries, follow, messages
        from pgsluice.pipeline.modify import chain_of_others
        from pgsluice.pipeline.session import LazySpark, SparkOptions
        from pgsluice.schema.match import TableMatcher

        wanted = TableMatcher.parse(self.tables.include, self.tables.exclude).matches if self.tables else None
        first = LogReader(log).first_lsn if start == "earliest" else Lsn.parse(start) if start else None
        spark = LazySpark(SparkOptions())
        render = (
            messages
            if self.raw
            else Entries(
                as_json=self.as_json,
                wanted=wanted,
                chain=chain_of_others(self.config, source),
                spark=spark.child,
            )
        )

        def going() -> bool:
            check()
            return not self.stopped

        try:
            for number, line in enumerate(follow(log, first, render, going=going), start=1):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
                if number == self.limit:
                    return
        except BrokenPipeError:
            # `| head` has seen enough; Python would complain once more when it flushes at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        finally:
            spark.stop()


def _temporary(config: Config) -> AbstractContextManager[TemporaryLog]:
    from pgsluice.source.temporary import temporary_log

    return temporary_log(config.source_url, selection(config), config.postgres.replication.publication)
