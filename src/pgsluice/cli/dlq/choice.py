"""Which letters people mean."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.pipeline.config import Config
    from pgsluice.state.dead_letter import Letter

Ids = Annotated[list[int] | None, typer.Argument(help="Numbers of letters; `dlq list` has them.")]
All = Annotated[bool, typer.Option("--all", help="All open letters.")]
SinkName = Annotated[str | None, typer.Option("--sink", help="Only those of the target of this name.")]


def chosen(config: Config, ids: Sequence[int] | None, *, every: bool, sink: str | None) -> list[Letter]:
    """The open letters that are named; an error for a number that is none."""
    from pgsluice.errors import ConfigError
    from pgsluice.state.dead_letter import LetterBook

    if bool(ids) == every:
        raise ConfigError(
            "which letters?", remedy="Give their numbers, or --all; `pgsluice dlq list` has them"
        )
    with closing(LetterBook(config.state_dir)) as book:
        known = {letter.id: letter for letter in book.letters(sink)}
    unknown = [number for number in ids or () if number not in known]
    if unknown:
        raise ConfigError(
            f"there is no open letter {unknown[0]}",
            remedy="`pgsluice dlq list` has the open ones, with --all those that were closed too",
        )
    return [known[number] for number in ids] if ids else list(known.values())
