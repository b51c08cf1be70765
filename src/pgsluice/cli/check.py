"""``pgsluice check``: what stands in the way on this machine and on the source, each with what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pgsluice.cli.init import AllTables, Failover, KeylessOption, Schemas, selection
from pgsluice.cli.options import (
    ExcludeTables,
    JsonOutput,
    Name,
    Publication,
    Slot,
    SourceUrl,
    StateDir,
    Tables,
    flags,
)
from pgsluice.cli.output import print_json, print_text
from pgsluice.cli.settings import load_config, settings

if TYPE_CHECKING:
    from pgsluice.source.finding import Finding


def check(
    context: typer.Context,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    slot: Slot = None,
    publication: Publication = None,
    tables: Tables = None,
    exclude_tables: ExcludeTables = None,
    schemas: Schemas = None,
    all_tables: AllTables = False,
    keyless: KeylessOption = None,
    failover: Failover = False,
    json_output: JsonOutput = False,
) -> None:
    """Check this machine, the source and the targets, as far as given. Exit code 1 when a run would stop."""
    from pgsluice.pipeline.check_machine import check_machine

    config = load_config(
        context,
        flags(
            source_url=source_url, name=name, state_dir=state_dir, slot=slot, publication=publication,
            tables=tables, exclude_tables=exclude_tables, schemas=schemas, all_tables=all_tables,
            keyless=keyless, failover=failover,
        ),
    )  # fmt: skip
    findings = check_machine(config.state_dir)
    if config.source is not None:
        from pgsluice.source.preflight import check_source

        wanted = config.postgres.replication
        findings += check_source(
            config.source_url, selection(config), name=config.name, slot=wanted.slot,
            publication=wanted.publication, failover=wanted.failover,
        )  # fmt: skip
    if config.target or config.targets:
        from pgsluice.pipeline.check_targets import check_targets

        findings += check_targets(config)
    stopped = any(finding.severity == "error" for finding in findings)
    if json_output:
        print_json({"ok": not stopped, "findings": [finding.as_dict() for finding in findings]})
    else:
        _print_findings(findings, quiet=settings(context).quiet)
    if stopped:
        raise typer.Exit(1)


def _print_findings(findings: list[Finding], *, quiet: bool) -> None:
    for finding in findings:
        if quiet and finding.severity == "info":
            continue
        print_text(f"{finding.severity:7}  {finding.code}: {finding.what}")
        if finding.remedy:
            print_text(f"         {finding.remedy}")
    if not quiet and all(finding.severity != "error" for finding in findings):
        print_text("nothing stands in the way of a run")
