"""Puts the commands below ``pgsluice schema`` together."""

from __future__ import annotations

import typer

from pgsluice.cli.schema.diff import diff
from pgsluice.cli.schema.log import log
from pgsluice.cli.schema.show import show

app = typer.Typer(add_completion=False, help="Changes of the source's schema.")


@app.callback()
def _schema() -> None:
    """Changes of the source's schema."""


app.command()(log)
app.command()(show)
app.command()(diff)
