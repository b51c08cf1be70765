"""``pgsluice init``: prepares the source database; the work is in :mod:`pgsluice.source.install`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgsluice.cli.options import (
    DryRun,
    ExcludeTables,
    JsonOutput,
    Name,
    Publication,
    SchemaOnlyTables,
    Slot,
    SourceUrl,
    Tables,
    flags,
)
from pgsluice.cli.output import print_json, print_text
from pgsluice.cli.settings import load_config, settings

if TYPE_CHECKING:
    from pgsluice.pipeline.config import Config
    from pgsluice.source.install import InitOptions, InitReport
    from pgsluice.source.selection import Selection

Schemas = Annotated[
    list[str] | None,
    typer.Option(help="Publish whole schemas (FOR TABLES IN SCHEMA) instead of a list of tables."),
]
AllTables = Annotated[
    bool, typer.Option("--all-tables", help="Publish FOR ALL TABLES instead of a list of tables.")
]
KeylessOption = Annotated[
    Literal["leave_out", "full"] | None,
    typer.Option(help="Tables without a usable identity: leave them out, or set REPLICA IDENTITY FULL."),
]
Failover = Annotated[
    bool, typer.Option("--failover", help="Make a slot that follows a failover (PostgreSQL 17 and newer).")
]
NoEventTriggers = Annotated[
    bool,
    typer.Option(
        "--no-event-triggers",
        help="Make no event triggers: of the schema, only changes of columns are seen then.",
    ),
]
Upgrade = Annotated[
    bool, typer.Option("--upgrade", help="Bring a source that an older pgsluice prepared up to date.")
]


def init(
    context: typer.Context,
    source_url: SourceUrl = None,
    name: Name = None,
    slot: Slot = None,
    publication: Publication = None,
    tables: Tables = None,
    exclude_tables: ExcludeTables = None,
    schema_only_tables: SchemaOnlyTables = None,
    schemas: Schemas = None,
    all_tables: AllTables = False,
    keyless: KeylessOption = None,
    failover: Failover = False,
    no_event_triggers: NoEventTriggers = False,
    upgrade: Upgrade = False,
    dry_run: DryRun = False,
    json_output: JsonOutput = False,
) -> None:
    """Prepare the source: checks, schema pgsluice, publication, slot. Running it twice changes nothing."""
    config = load_config(
        context,
        flags(
            source_url=source_url, name=name, slot=slot, publication=publication, tables=tables,
            exclude_tables=exclude_tables,
 schema_only_tables=schema_only_tables, schemas=schemas, all_tables=all_tables, keyless=keyless,
            failover=failover, event_triggers=False if no_event_triggers else None,
        ),
    )  # fmt: skip
    from pgsluice.source.install import init as prepare

    report = prepare(config.source_url, init_options(config, upgrade=upgrade), dry_run=dry_run)
    if json_output:
        print_json({**asdict(report), "changed": report.changed})
    elif not settings(context).quiet:
        _print_report(report, dry_run=dry_run)


def init_options(config: Config, *, upgrade: bool = False) -> InitOptions:
    """What the configuration asks of ``init``; also used by ``run --init``."""
    from pgsluice.source.install import InitOptions

    wanted = config.postgres.replication
    return InitOptions(
        name=config.name,
        slot=wanted.slot,
        publication=wanted.publication,
        selection=selection(config),
        failover=wanted.failover,
        upgrade=upgrade,
        event_triggers=wanted.event_triggers,
    )


def selection(config: Config) -> Selection | None:
    """Which tables the configuration chooses; None when it says nothing, so that an earlier choice stays."""
    from pgsluice.source.selection import Scope, Selection

    wanted = config.postgres.replication
    said = {"tables", "exclude_tables", "schemas", "all_tables", "keyless"}
    if not said & wanted.model_fields_set:
        return None
    scope: Scope = "all" if wanted.all_tables else "schemas" if wanted.schemas else "list"
    return Selection(
        scope, tuple(wanted.tables), tuple(wanted.exclude_tables), tuple(wanted.schemas), wanted.keyless
    )


def _print_report(report: InitReport, *, dry_run: bool) -> None:
    for action in report.actions:
        print_text(f"would {action}" if dry_run else action)
    if not report.changed:
        print_text("nothing to do: the source is prepared")
    print_text(f"publication {report.publication}: {len(report.tables)} tables")
    for table, reason in report.left_out:
        print_text(f"left out: {table} ({reason})")
    for warning in report.warnings:
        print_text(f"warning: {warning}")
