"""``pgsluice status``: slot, log, listener and sinks, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pgsluice.cli.options import JsonOutput, Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import load_config

if TYPE_CHECKING:
    from pgsluice.pipeline.status import Status


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
    found = collect(config.name, config.source_url, config.log_dir)
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
    if found.log.get("exists"):
        log = found.log
        print_text(
            f"log       {log['first']} to {log['end']}, {_size(log['bytes'])} in {log['segments']} segments"
        )
    if found.listener:
        print_text(f"listener  {found.listener['state']}, reconnected {found.listener['reconnects']} times")
    if found.sinks:
        print_text()
        rows = [(s.name, s.position, _size(s.lag_bytes), _seconds(s.lag_seconds)) for s in found.sinks]
        print_table(("sink", "position", "behind", "oldest waiting"), rows)
    for problem in found.problems:
        print_text()
        print_text(f"problem {problem.code}: {problem.what}")
        print_text(f"        {problem.remedy}")


def _size(count: int | None) -> str:
    if count is None:
        return "unknown"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _seconds(count: float | None) -> str:
    return "nothing" if not count else f"{count:.1f} s"
