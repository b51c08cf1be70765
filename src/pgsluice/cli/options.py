"""
Option types that several commands share, and the way from options to configuration keys.

A command declares ``source_url: SourceUrl = None`` and hands what it got to :func:`flags`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

SourceUrl = Annotated[
    str | None,
    typer.Option(
        help="The source database: postgresql://user@host:5432/database. "
        "A password is safer in .pgpass, PGPASSWORD or a file: others see command lines."
    ),
]
Name = Annotated[str | None, typer.Option(help="Name of the pipeline.")]
StateDir = Annotated[Path | None, typer.Option(help="Directory of the pipeline's own files.")]
Slot = Annotated[str | None, typer.Option(help="Replication slot; one that exists is used as it is.")]
Publication = Annotated[str | None, typer.Option(help="Publication; one that exists is used as it is.")]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        help="Tables: table, schema.table, schema.*, *.table; a list with commas, or given several times."
    ),
]
ExcludeTables = Annotated[
    list[str] | None, typer.Option(help="Tables to leave out, in the same forms; they win over --tables.")
]
SchemaOnlyTables = Annotated[
    list[str] | None, typer.Option(help="Tables of which a target gets the definition and no rows.")
]
TargetKind = Annotated[str | None, typer.Option("--target", help="Kind of target; see `pgsluice targets`.")]
TargetUrl = Annotated[str | None, typer.Option(help="Where the target is: its url or path.")]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Force = Annotated[bool, typer.Option("--force", help="Do it without asking, and over what is there.")]

KEYS: Final = {
    "name": "name",
    "state_dir": "state_dir",
    "source_url": "source.postgres.url",
    "mode": "source.postgres.mode",
    "slot": "source.postgres.replication.slot",
    "publication": "source.postgres.replication.publication",
    "tables": "source.postgres.replication.tables",
    "exclude_tables": "source.postgres.replication.exclude_tables",
    "schema_only_tables": "source.postgres.replication.schema_only_tables",
    "schemas": "source.postgres.replication.schemas",
    "all_tables": "source.postgres.replication.all_tables",
    "keyless": "source.postgres.replication.keyless",
    "failover": "source.postgres.replication.failover",
    "event_triggers": "source.postgres.replication.event_triggers",
}
"""The configuration key of each option that is one."""

_SWITCHED_OFF = ("event_triggers",)  # on by default; the others are off, and False means: not given
_LISTS = ("tables", "exclude_tables", "schema_only_tables", "schemas")
_ITEM = re.compile(r'(?:[^,"]|"[^"]*")+')


def flags(**options: Any) -> dict[str, Any]:
    """Configuration keys from options; an option that was not given is None and stays out."""
    result = {}
    for option, value in options.items():
        given = split_list(value) if option in _LISTS and value else value
        if given not in (None, []) and (given is not False or option in _SWITCHED_OFF):
            result[KEYS[option]] = str(given) if isinstance(given, Path) else given
    return result


def target_flags(kind: str | None, url: str | None) -> dict[str, Any]:
    """Configuration keys from ``--target`` and ``--target-url``, which is the kind's url or path."""
    from pgsluice.errors import ConfigError
    from pgsluice.sinks import registry

    if kind is None:
        if url is not None:
            raise ConfigError("--target-url needs --target", remedy="Name the kind: --target duckdb")
        return {}
    known = registry.kind(kind).config.model_fields
    if url is None:
        return {"target": {kind: {}}}
    key = next((name for name in ("url", "path") if name in known), None)
    if key is None:
        raise ConfigError(f"the {kind} target takes no --target-url")
    return {"target": {kind: {key: url}}}


def split_list(values: list[str]) -> list[str]:
    """Items of options that are given several times or with commas; quotes keep a comma in a name."""
    return [item.strip() for value in values for item in _ITEM.findall(value) if item.strip()]
