"""``pgsluice config show``: every value in force, and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pgsluice.cli.options import JsonOutput, Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_json, print_table
from pgsluice.cli.settings import load, settings

if TYPE_CHECKING:
    from pgsluice.pipeline.config import Config


def show(
    context: typer.Context,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """Show every value in force and where it came from; secrets are masked."""
    from pgsluice.pipeline.config.describe import values
    from pgsluice.pipeline.config.problems import dotted

    loaded = load(context, flags(source_url=source_url, name=name, state_dir=state_dir))
    derived = _derived(loaded.config)
    rows = []
    for key, value in values(loaded.config):
        text = derived.get(dotted(key), value) if value == "null" else value
        rows.append((dotted(key), text, loaded.origin(key)))
    if json_output:
        print_json([{"key": key, "value": value, "origin": origin} for key, value, origin in rows])
    else:
        print_table(("key", "value", "from"), rows, no_color=settings(context).no_color)


def _derived(config: Config) -> dict[str, str]:
    """Defaults that follow from other values."""
    return {"log.path": str(config.log_dir)}
