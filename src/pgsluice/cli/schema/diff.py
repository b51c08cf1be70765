"""``pgsluice schema diff``: what became of the schema between two places, or how targets differ from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pgsluice.cli.options import (
    JsonOutput,
    Name,
    SourceUrl,
    StateDir,
    TargetKind,
    TargetUrl,
    flags,
    target_flags,
)
from pgsluice.cli.output import print_json, print_text
from pgsluice.cli.settings import load_config

if TYPE_CHECKING:
    from pgsluice.pipeline.config import Config


def diff(
    context: typer.Context,
    first: Annotated[
        str | None, typer.Argument(help="An LSN, the id of a change, or with --schema a version.")
    ] = None,
    last: Annotated[str | None, typer.Argument(help="The same.")] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Only this schema; numbers are versions of it.")
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="The source's catalog against its triggers and against the targets."),
    ] = False,
    source_url: SourceUrl = None,
    target: TargetKind = None,
    target_url: TargetUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """
    Tell what became of the schema between two places of the stream. With --live, how the source's catalog
    differs now from what its event triggers know, and from each PostgreSQL target. Exit code 1 when it does.
    """
    from pgsluice.errors import ConfigError

    given = {
        **flags(source_url=source_url, name=name, state_dir=state_dir),
        **target_flags(target, target_url),
    }
    config = load_config(context, given)
    if live and first is None and schema is None:
        differ = _live(config, json_output=json_output)
    elif not live and first is not None and last is not None:
        differ = _between(config, first, last, schema, json_output=json_output)
    else:
        raise ConfigError("compare what?", remedy="pgsluice schema diff A B [--schema NAME], or --live alone")
    if differ:
        raise typer.Exit(1)


def _between(config: Config, first: str, last: str, schema: str | None, *, json_output: bool) -> bool:
    from pgsluice.pipeline.schema_at import changes_between, words_of

    found = changes_between(config.log_dir, first, last, schema)
    told = [(*words_of(each), each) for each in found]
    if json_output:
        print_json(
            [
                {"kind": kind, "name": name, "what": what, "before": each.before, "after": each.after}
                for kind, name, what, each in told
            ]
        )
    else:
        for kind, name, what, _ in told:
            for line in what:
                print_text(f"{kind} {name}: {line}")
    return bool(found)


def _live(config: Config, *, json_output: bool) -> bool:
    from pgsluice.pipeline.schema_live import compare_live

    found = compare_live(config)
    if json_output:
        print_json(found.as_dict())
    else:
        for each in found.differences:
            print_text(f"{each.where}: {each.kind} {each.name}: {each.what}")
        for note in found.notes:
            print_text(note)
    return bool(found.differences)
