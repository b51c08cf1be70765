"""``pgsluice snapshot``: copy the tables as they are, once."""

from __future__ import annotations

import contextlib

import structlog
import typer

from pgsluice.cli.options import (
    ExcludeTables,
    Name,
    SchemaOnlyTables,
    SourceUrl,
    StateDir,
    Tables,
    TargetKind,
    TargetUrl,
    flags,
    target_flags,
)
from pgsluice.cli.progress import display
from pgsluice.cli.settings import load_config, settings
from pgsluice.cli.signals import stopped_by_signals

logger = structlog.get_logger(__name__)


def snapshot(
    context: typer.Context,
    source_url: SourceUrl = None,
    target: TargetKind = None,
    target_url: TargetUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    tables: Tables = None,
    exclude_tables: ExcludeTables = None,
    schema_only_tables: SchemaOnlyTables = None,
) -> None:
    """Copy the tables as they are at one point, then end; nothing stays on the source."""
    from pgsluice.pipeline.build import build_pipeline

    asked = flags(
        source_url=source_url,
        name=name,
        state_dir=state_dir,
        mode="snapshot",
        tables=tables,
        exclude_tables=exclude_tables,
        schema_only_tables=schema_only_tables,
    )
    config = load_config(context, {**asked, **target_flags(target, target_url)})
    shared = settings(context)
    pipeline = build_pipeline(config, quiet_spark=not shared.debug)
    with stopped_by_signals(pipeline.stop), contextlib.nullcontext() if shared.quiet else display(pipeline):
        finished = pipeline.run()
    if finished:
        return
    logger.warning("stopped before everything was copied", remedy="Run it again: it goes on from there")
    raise typer.Exit(1)
