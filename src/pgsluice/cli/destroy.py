"""``pgsluice destroy``: removes what ``init`` made; the work is in :mod:`pgsluice.source.uninstall`."""

from __future__ import annotations

import typer

from pgsluice.cli.options import DryRun, JsonOutput, Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_json, print_text
from pgsluice.cli.settings import load_config, settings


def destroy(
    context: typer.Context,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    dry_run: DryRun = False,
    json_output: JsonOutput = False,
) -> None:
    """Remove what init made for this pipeline on the source, and its change log here; nothing else."""
    config = load_config(context, flags(source_url=source_url, name=name, state_dir=state_dir))
    from pgsluice.pipeline.leave import remove_letters, remove_log, require_no_run
    from pgsluice.source.uninstall import destroy as remove
    from pgsluice.source.uninstall import slot_of

    _ = config.postgres  # an error when there is no source
    require_no_run(config.log_dir)
    slot = slot_of(config.source_url, config.name)
    actions = remove(config.source_url, config.name, dry_run=dry_run)
    actions += remove_log(config.log_dir, slot, dry_run=dry_run)
    if not config.log_dir.exists() or dry_run:
        actions += remove_letters(config.state_dir, dry_run=dry_run)
    if json_output:
        print_json({"name": config.name, "dry_run": dry_run, "actions": actions})
    elif not settings(context).quiet:
        for action in actions:
            print_text(f"would {action}" if dry_run else action)
        if not actions:
            print_text("nothing to remove")
