"""Puts the commands below ``pgsluice dlq`` together."""

from __future__ import annotations

import typer

from pgsluice.cli.dlq.discard import discard
from pgsluice.cli.dlq.list import list_letters
from pgsluice.cli.dlq.replay import replay
from pgsluice.cli.dlq.show import show

app = typer.Typer(add_completion=False, help="Dead letters: rows that a target refused.")
app.command("list")(list_letters)
app.command()(show)
app.command()(replay)
app.command()(discard)
