"""``pgsluice status``: slot, log, listener and sinks, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pgsluice.cli.options import JsonOutput, Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import load_config
from pgsluice.units import readable_seconds, readable_size

if TYPE_CHECKING:
    from pgsluice.pipeline.copy_report import SinkReport
    from pgsluice.pipeline.status import SinkStatus, Status


def status(
    context: typer.Context,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """Show slot, lag, log, and the progress of every sink. Exit code 1 when something is wrong."""
    from pgsluice.pipeline.status import collect

    config = load_config(context, flags(source_url=source_url, name=name, state_dir=state_dir))
    _ = config.postgres  # an error when there is no source
    found = collect(config.name, config.source_url, config.log_dir, config.state_dir)
    if json_output:
        print_json(found.as_dict())
    else:
        _print(found)
    if found.problems:
        raise typer.Exit(1)


def _print(found: Status) -> None:
    print_text(f"pipeline  {found.name}, {'running' if found.running else 'not running'}")
    if found.slot.get("exists"):
        slot = found.slot
        print_text(
            f"slot      {slot['name']}, confirmed {slot['confirmed_flush_lsn']}, "
            f"{_size(slot['lag_bytes'])} behind, server keeps {_size(slot['held_bytes'])}"
        )
    if found.source.get("notes_schema") is False:
        print_text("schema    only changes of columns are seen, when rows come: there are no event triggers")
    if found.log.get("exists"):
        log = found.log
        print_text(
            f"log       {log['first']} to {log['end']}, {_size(log['bytes'])} "
            f"in {_plural(log['segments'], 'segment')}"
        )
    if found.listener:
        times = _plural(found.listener["reconnects"], "time")
        print_text(f"listener  {found.listener['state']}, reconnected {times}")
    if found.sinks:
        print_text()
        rows = [
            (s.name, s.position, _size(s.lag_bytes), _seconds(s.lag_seconds), _consistent(s))
            for s in found.sinks
        ]
        print_table(("sink", "position", "behind", "oldest waiting", "consistent"), rows)
    for copy in found.copies:
        if not copy.finished:
            _print_copy(copy)
    if found.resyncs:
        print_text()
        print_text(f"resync    {', '.join(found.resyncs)}")
    if found.without_identity:
        print_text()
        met = [(e.sink, e.table, f"{e.passed:,}", f"{e.dropped:,}") for e in found.without_identity]
        print_table(("sink", "table without identity", "rows passed", "rows dropped"), met)
    for problem in found.problems:
        print_text()
        print_text(f"problem {problem.code}: {problem.what}")
        print_text(f"        {problem.remedy}")


def _consistent(sink: SinkStatus) -> str:
    if sink.consistent is None:
        return "-"
    when = f"{sink.consistent_from}" if sink.consistent_from else "the copy's end"
    return f"{'since' if sink.consistent else 'from'} {when}"


def _print_copy(copy: SinkReport) -> None:
    """The copy of tables into one sink."""
    print_text()
    left = copy.seconds_left
    state = "done" if copy.finished else f"about {readable_seconds(left)} left" if left else "begun"
    print_text(f"copy      {copy.sink}, at {copy.position}: {state}")
    rows = [
        (
            table.table,
            f"{table.rows:,}",
            f"{readable_size(table.copied_bytes)} of {readable_size(table.bytes)}",
            f"{table.copied_ranges} of {table.ranges}",
        )
        for table in copy.tables
    ]
    print_table(("table", "rows", "size", "ranges"), rows)


def _size(count: int | None) -> str:
    return "unknown" if count is None else readable_size(count)


def _seconds(count: float | None) -> str:
    return readable_seconds(count) if count else "nothing"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
