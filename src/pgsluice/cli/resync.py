"""``pgsluice resync``: copy one table anew while the stream goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pgsluice.cli.options import Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_text
from pgsluice.cli.settings import load_config, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.pipeline.config import Config

_LOOK_SECONDS: Final = 0.2


def resync(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table: schema.table.")],
    target: Annotated[
        str | None, typer.Option(help="Name of one target; without it all that hold tables.")
    ] = None,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Remove rows that the source does not have also where others may write (on_conflict).",
        ),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done.")] = False,
) -> None:
    """Copy one table anew into targets that hold tables, beside the stream; the other tables go on."""
    config = load_config(context, flags(source_url=source_url, name=name, state_dir=state_dir))
    from pgsluice.pipeline.resync import ask_for_copy
    from pgsluice.schema.renames import table_name
    from pgsluice.source.process import listening_process
    from pgsluice.state.requests import Requests

    _ = config.postgres  # an error when there is no source
    sinks = _sinks(config, target)
    asked = ask_for_copy(
        config.source_url, config.name, config.state_dir, sinks, table_name(table), replace=replace
    )
    running = listening_process(config.log_dir) is not None
    who = "the running pipeline copies" if running else "the next `pgsluice run` copies"
    if not settings(context).quiet:
        for request in asked:
            print_text(f"{who} {request.qualified} anew into {request.sink}")
    requests = Requests(config.state_dir)
    if wait and not running:
        print_text("waiting for a run: start one with `pgsluice run`")
    while wait and any(requests.is_open(request) for request in asked):
        time.sleep(_LOOK_SECONDS)


def _sinks(config: Config, target: str | None) -> Sequence[str]:
    """The names of the targets: those of the configuration, or else those that have read the log."""
    from pgsluice.changelog.consumers import Consumers
    from pgsluice.errors import ConfigError
    from pgsluice.pipeline.anew import beside_name
    from pgsluice.pipeline.letters.desk import letters_name

    if config.target or config.targets:
        known = [each.name for each in config.sinks() if each.kind.form == "tables"]
    else:
        readers = [each.name for each in Consumers(config.log_dir).all()]
        beside = [named(name) for name in readers for named in (beside_name, letters_name)]
        known = [name for name in readers if name not in beside]
    if target is not None and target not in known:
        raise ConfigError(
            f"there is no target {target!r} that holds tables",
            remedy=f"Name one of: {', '.join(known) or 'none has run yet'}",
        )
    if not known:
        raise ConfigError("there is no target that holds tables", remedy="Give the pipeline's -c file")
    return [target] if target else known
