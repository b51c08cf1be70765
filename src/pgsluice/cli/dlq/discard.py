"""``pgsluice dlq discard``: give rows up."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from pgsluice.cli.dlq.choice import All, Ids, SinkName, chosen
from pgsluice.cli.options import Name, StateDir, flags
from pgsluice.cli.output import print_text
from pgsluice.cli.settings import load_config, settings


def discard(
    context: typer.Context,
    ids: Ids = None,
    every: All = False,
    sink: SinkName = None,
    name: Name = None,
    state_dir: StateDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Close letters without applying them: the target lacks these changes until the table is copied anew."""
    from pgsluice.state.dead_letter import LetterBook

    config = load_config(context, flags(name=name, state_dir=state_dir))
    letters = chosen(config, ids, every=every, sink=sink)
    if letters and not yes:
        typer.confirm(f"Give {len(letters)} changes up? The target will lack them", abort=True)
    with closing(LetterBook(config.state_dir)) as book:
        discarded = book.discard(letters)
    if not settings(context).quiet:
        print_text(f"{discarded} discarded")
    if discarded < len(letters):
        print_text(f"{len(letters) - discarded} are being replayed just now, or were closed meanwhile")
        raise typer.Exit(1)
