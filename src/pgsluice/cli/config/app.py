"""Puts the commands below ``pgsluice config`` together."""

from __future__ import annotations

import typer

from pgsluice.cli.config.new import new
from pgsluice.cli.config.schema import schema
from pgsluice.cli.config.show import show

app = typer.Typer(add_completion=False, help="Show the configuration, or write a new one.")
app.command()(show)
app.command()(schema)
app.command()(new)
