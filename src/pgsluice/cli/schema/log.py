"""``pgsluice schema log``: the changes of the schema that the source has noted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgsluice.cli.options import JsonOutput, Name, SourceUrl, StateDir, flags
from pgsluice.cli.output import print_json, print_table
from pgsluice.cli.settings import load_config, settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.schema.entry import ObjectChange, SchemaEntry
    from pgsluice.schema.history import PlacedEntry


def log(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, help="The last so many.")] = 50,
    source_url: SourceUrl = None,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """
    List the changes of the schema, oldest first: when, by whom, by which command, what they changed; and the
    versions that the pipeline has counted, with whether all of its targets have them.
    """
    from pgsluice.pipeline.schema_at import read_history
    from pgsluice.source.schema_log import read_acks, read_log

    config = load_config(context, flags(source_url=source_url, name=name, state_dir=state_dir))
    entries = read_log(config.source_url, limit)
    acks = read_acks(config.source_url, config.name)
    placed = {each.entry.id: each for each in read_history(config.log_dir)}
    lines = [_Line(entry, placed.get(entry.id), acks) for entry in entries]
    if json_output:
        print_json([line.as_dict() for line in lines])
        return
    print_table(
        ("id", "position", "at", "user", "command", "version", "acknowledged", "changed"),
        [line.cells() for line in lines],
        no_color=settings(context).no_color,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry, and what the pipeline knows of it."""

    entry: SchemaEntry
    placed: PlacedEntry | None  # None: the pipeline has not read it
    acks: Mapping[str, int]  # by schema

    @property
    def acknowledged(self) -> bool:
        """Whether all targets have what it made."""
        versions = self.placed.versions.items() if self.placed else ()
        return bool(versions) and all(self.acks.get(schema, 0) >= version for schema, version in versions)

    def cells(self) -> tuple[Any, ...]:
        """For people."""
        entry, placed = self.entry, self.placed
        versions = (
            ", ".join(f"{schema} {version}" for schema, version in placed.versions.items()) if placed else ""
        )
        return (
            entry.id,
            placed.lsn if placed else "-",
            entry.at,
            entry.user,
            entry.tag,
            versions or "-",
            ("yes" if self.acknowledged else "no") if versions else "-",
            entry.problem or ", ".join(map(_words, entry.changes)),
        )

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.entry.id,
            "position": str(self.placed.lsn) if self.placed else None,
            "at": self.entry.at,
            "user": self.entry.user,
            "command": self.entry.tag,
            "statement": self.entry.statement,
            "search_path": self.entry.search_path,
            "problem": self.entry.problem,
            "versions": dict(self.placed.versions) if self.placed else {},
            "acknowledged": self.acknowledged,
            "changes": [
                {
                    "class": change.catalog,
                    "id": change.oid,
                    "before": change.before,
                    "after": change.after,
                    "dropped": change.dropped is not None,
                    "rewritten": change.rewritten,
                }
                for change in self.entry.changes
            ],
        }


def _words(change: ObjectChange) -> str:
    """What became of an object, for people."""
    if change.rewritten:
        return "all rows of a table"
    named = change.definition
    name = named["name"] if named["kind"] in ("schema", "extension") else f"{named['schema']}.{named['name']}"
    if change.dropped is not None:
        return f"dropped {named['kind']} {name}"
    before = change.before
    if before is None:
        return f"new {named['kind']} {name}"
    was = f"{before['schema']}.{before['name']}"
    moved = f" (was {was})" if (before["schema"], before["name"]) != (named["schema"], named["name"]) else ""
    return f"{named['kind']} {name}{moved}"
