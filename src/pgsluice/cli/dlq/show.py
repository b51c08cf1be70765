"""``pgsluice dlq show``: one letter, with its row."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgsluice.cli.options import JsonOutput, Name, StateDir, TargetKind, TargetUrl, flags, target_flags
from pgsluice.cli.output import print_json, print_text
from pgsluice.cli.settings import load_config

if TYPE_CHECKING:
    from pgsluice.pipeline.config import Config
    from pgsluice.state.dead_letter import Letter


def show(
    context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="ID", help="Number of the letter.")],
    target: TargetKind = None,
    target_url: TargetUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """Show one letter: where and why, and the row as the target was to get it, read from the change log."""
    from pgsluice.errors import ConfigError
    from pgsluice.state.dead_letter import DDL, LetterBook

    given = {**flags(name=name, state_dir=state_dir), **target_flags(target, target_url)}
    config = load_config(context, given)
    with closing(LetterBook(config.state_dir)) as book:
        letter = next((each for each in book.letters(closed=True) if each.id == number), None)
    if letter is None:
        raise ConfigError(f"there is no letter {number}", remedy="`pgsluice dlq list --all` has them")
    has_row = letter.status == "open" and letter.op != DDL
    described = {**letter.as_dict(), "row": _row(config, letter) if has_row else None}
    if json_output:
        print_json(described)
        return
    for key, value in described.items():
        if key != "row" and value is not None:
            print_text(f"{key:11}{value}")
    for part, values in (described["row"] or {}).items():
        print_text()
        print_text(part)
        for column, value in values.items():
            print_text(f"  {column} = {'NULL' if value is None else value}")


def _row(config: Config, letter: Letter) -> dict[str, Any]:
    from pgsluice.pipeline.letters.shown import shown_row
    from pgsluice.pipeline.letters.without_run import letter_reader, target_of
    from pgsluice.schema.store import SchemaStore

    with closing(SchemaStore(config.log_dir / "schema.db")) as store:
        return shown_row(letter_reader(config, target_of(config, letter.sink), store), letter)
