"""``pgsluice validate``: says what is wrong with files, without touching a server."""

from __future__ import annotations

import typer

from pgsluice.cli.output import print_text
from pgsluice.cli.settings import load_config, settings

app = typer.Typer(add_completion=False, help="Check files without touching a server.")


@app.callback()
def validate() -> None:
    """Check files without touching a server."""


@app.command()
def config(context: typer.Context) -> None:
    """Check the configuration; every problem is listed, and the exit code is then 2."""
    loaded = load_config(context)
    source, targets = loaded.postgres, loaded.sinks()
    if not settings(context).quiet:
        names = ", ".join(f"{target.name} ({target.kind.guarantee})" for target in targets)
        print_text(f"{loaded.name}: postgres, {source.mode} -> {names}: the configuration is valid")
