"""``pgsluice dlq replay``: apply what was refused, now that the target is mended."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pgsluice.cli.dlq.choice import All, Ids, SinkName, chosen
from pgsluice.cli.options import Name, StateDir, TargetKind, TargetUrl, flags, target_flags
from pgsluice.cli.output import print_text
from pgsluice.cli.settings import load_config, settings

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pgsluice.pipeline.config import Config
    from pgsluice.state.dead_letter import Letter, LetterBook

_LOOK_SECONDS: Final = 0.1
_WAIT_SECONDS: Final = 60.0
_RUN_SECONDS: Final = 1.0  # between looks whether the run is still there


def replay(
    context: typer.Context,
    ids: Ids = None,
    every: All = False,
    sink: SinkName = None,
    target: TargetKind = None,
    target_url: TargetUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a run that is active to do it.")
    ] = _WAIT_SECONDS,
) -> None:
    """Apply letters, with those that wait behind them; one that is refused again stays open (exit code 1)."""
    given = {**flags(name=name, state_dir=state_dir), **target_flags(target, target_url)}
    config = load_config(context, given)
    letters = chosen(config, ids, every=every, sink=sink)
    for of_one in _by_sink(letters):
        _replay(config, of_one, wait)
    _report(config, letters, quiet=settings(context).quiet)


def _by_sink(letters: Sequence[Letter]) -> list[list[Letter]]:
    found: dict[str, list[Letter]] = {}
    for letter in letters:
        found.setdefault(letter.sink, []).append(letter)
    return list(found.values())


def _replay(config: Config, letters: Sequence[Letter], wait: float) -> None:
    """By the run that has the target, or here if there is none; a run may come or go meanwhile."""
    from pgsluice.errors import LogLockedError
    from pgsluice.pipeline.letters.without_run import replay_without_run, target_of
    from pgsluice.state.dead_letter import LetterBook

    deadline = time.monotonic() + wait
    ids = {letter.id for letter in letters}
    with closing(LetterBook(config.state_dir)) as book:
        while True:
            try:
                replay_without_run(config, target_of(config, letters[0].sink), ids)
            except LogLockedError as exc:
                book.ask(letters)
                if _taken_up(book, ids, min(deadline, time.monotonic() + _RUN_SECONDS)):
                    return
                if time.monotonic() > deadline:
                    raise LogLockedError(
                        f"{exc.message}, and has not replayed the letters within {wait:g} s",
                        remedy="They are asked for: see `pgsluice dlq list` later, or stop that run",
                    ) from None
            else:
                return


def _taken_up(book: LetterBook, ids: Collection[int], deadline: float) -> bool:
    """Whether the run has done it by then."""
    while any(letter.asked for letter in book.letters() if letter.id in ids):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _report(config: Config, letters: Sequence[Letter], *, quiet: bool) -> None:
    from pgsluice.state.dead_letter import LetterBook

    with closing(LetterBook(config.state_dir)) as book:
        now = {letter.id: letter for letter in book.letters(closed=True)}
    found = [now[letter.id] for letter in letters if letter.id in now]
    again = [letter for letter in found if letter.status == "open"]
    others = sum(letter.status == "open" for letter in now.values()) - len(again)
    if not quiet:
        besides = f"; {others} more open" if others else ""
        print_text(f"{len(found) - len(again)} replayed, {len(again)} still open{besides}")
    for letter in again:
        why = f"waits for letter {letter.waits_for}" if letter.waits_for else letter.message
        print_text(f"letter {letter.id}: {why}")
    if again:
        raise typer.Exit(1)
