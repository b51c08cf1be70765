"""``pgsluice destroy``: removes what ``init`` made; the work is in :mod:`pgsluice.source.uninstall`."""

from __future__ import annotations

import typer  # noqa: TC002 - typer reads annotations

from pgsluice.cli.options import DryRun, JsonOutput, Name, SourceUrl, flags
from pgsluice.cli.output import print_json, print_text
from pgsluice.cli.settings import load_config, settings


def destroy(
    context: typer.Context,
    source_url: SourceUrl = None,
    name: Name = None,
    dry_run: DryRun = False,
    json_output: JsonOutput = False,
) -> None:
    """Remove from the source what init made for this pipeline, and nothing else."""
    config = load_config(context, flags(source_url=source_url, name=name))
    from pgsluice.source.uninstall import destroy as remove

    actions = remove(config.source_url, config.name, dry_run=dry_run)
    if json_output:
        print_json({"name": config.name, "dry_run": dry_run, "actions": actions})
    elif not settings(context).quiet:
        for action in actions:
            print_text(f"would {action}" if dry_run else action)
        if not actions:
            print_text("nothing to remove")
