"""``pgsluice dlq list``: the rows that targets refused, without anything of the rows themselves."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from pgsluice.cli.dlq.choice import SinkName  # noqa: TC001 - typer reads annotations
from pgsluice.cli.options import JsonOutput, Name, StateDir, flags
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import load_config, settings
from pgsluice.units import readable_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.state.dead_letter import Letter


def list_letters(
    context: typer.Context,
    sink: SinkName = None,
    closed: Annotated[bool, typer.Option("--all", help="Closed ones too.")] = False,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """List the letters: where the change stands, which table, and why it was refused; never a value."""
    from pgsluice.state.dead_letter import LetterBook

    config = load_config(context, flags(name=name, state_dir=state_dir))
    with closing(LetterBook(config.state_dir)) as book:
        found = book.letters(sink, closed=closed)
    if json_output:
        print_json([letter.as_dict() for letter in found])
    elif found:
        _print(found, no_color=settings(context).no_color)
    else:
        print_text("no dead letters" if closed else "no open dead letters")


def _print(found: Sequence[Letter], *, no_color: bool) -> None:
    now = time.time()
    rows = [
        (
            letter.id,
            letter.sink,
            letter.table,
            f"{letter.position.commit_lsn}.{letter.position.seq}",
            letter.op,
            letter.status,
            readable_seconds(max(now - letter.noted_at, 1)),
            f"waits for letter {letter.waits_for}" if letter.waits_for else letter.message,
        )
        for letter in found
    ]
    print_table(
        ("letter", "sink", "table", "position", "op", "status", "age", "why"), rows, no_color=no_color
    )
