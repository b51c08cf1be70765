"""``pgsluice run``: listen, and carry changes to the targets until told to stop."""

from __future__ import annotations

import contextlib
from typing import Annotated

import structlog
import typer

from pgsluice.cli.options import (
    ExcludeTables,
    Name,
    Publication,
    SchemaOnlyTables,
    Slot,
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


def run(
    context: typer.Context,
    source_url: SourceUrl = None,
    target: TargetKind = None,
    target_url: TargetUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    mode: Annotated[
        str | None,
        typer.Option(help="snapshot_and_replication (tables, then changes), replication, or snapshot."),
    ] = None,
    tables: Tables = None,
    exclude_tables: ExcludeTables = None,
    schema_only_tables: SchemaOnlyTables = None,
    slot: Slot = None,
    publication: Publication = None,
    init: Annotated[bool, typer.Option("--init", help="Prepare the source first, if it isn't yet.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Catch up with what is there now, then end.")] = False,
) -> None:
    """Carry changes to the targets until stopped; the first signal finishes the running batch."""
    from pgsluice.pipeline.build import build_pipeline

    shared = settings(context)
    given = {
        **flags(
            source_url=source_url,
            name=name,
            state_dir=state_dir,
            mode=mode,
            tables=tables,
            exclude_tables=exclude_tables,
            schema_only_tables=schema_only_tables,
            slot=slot,
            publication=publication,
        ),
        **target_flags(target, target_url),
    }
    config = load_config(context, given)
    pipeline = build_pipeline(
        config,
        init=init,
        quiet_spark=not shared.debug,
        reload=lambda: load_config(context, given),
        listener_logs={"log_level": shared.log_level, "log_format": shared.log_format},
    )
    signals = stopped_by_signals(pipeline.stop, pipeline.reload)
    with signals, contextlib.nullcontext() if shared.quiet else display(pipeline):
        finished = pipeline.run(once=once)
    if not finished:
        logger.warning("stopped before everything was applied", remedy="Run it again: it goes on from there")
        raise typer.Exit(1)
