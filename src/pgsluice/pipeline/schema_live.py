"""
The source's catalog, compared with what its event triggers know and with the catalogs of PostgreSQL targets.

Objects of a target are found by kind and name, under the names that the target has for them. What can't be
equal is left out: numbers, and what is not replicated because its table is not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg

from pgsluice.errors import TargetError
from pgsluice.postgres.refusals import one_line
from pgsluice.schema.compare import Words, differences, name_of
from pgsluice.schema.describe import objects_of
from pgsluice.schema.described_names import DescribedNames
from pgsluice.sinks.postgres.config import PostgresConfig
from pgsluice.sinks.postgres.connection import address, open_target
from pgsluice.source.live_schema import read_live_schema

if TYPE_CHECKING:
    from pgsluice.pipeline.config import Config, Target
    from pgsluice.schema.describe import Objects
    from pgsluice.schema.entry import Definition
    from pgsluice.source.live_schema import LiveSchema

_SOURCE: Final = "source"
_TARGET_WORDS: Final = Words("is only in the target", "is missing in the target", renamed=False)
_OWN: Final = ("schema", "extension")  # kinds of which a target may have others of its own
_STATES: Final = {"A": None, "R": "D"}  # how triggers are made in a target: what they did is in the stream
_BY_VERSION: Final = ("query", "create")  # texts that versions of the server write differently

Name = tuple[str, str, str, str, str]
"""Kind, schema, table, name, arguments: what there can be only one of in a database."""


@dataclass(frozen=True, slots=True)
class LiveDifference:
    """One thing that is not the same."""

    where: str  # source: what the triggers have not seen; else the target
    kind: str
    name: str
    what: str


@dataclass(slots=True)
class LiveComparison:
    """Everything that is not the same, and what could not be compared."""

    differences: list[LiveDifference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"equal": not self.differences, **asdict(self)}


def compare_live(config: Config) -> LiveComparison:
    """Look at the source, and at all targets of a configuration that are PostgreSQL."""
    found = LiveComparison()
    filter_ = config.modifiers.filter.matcher()
    schema = read_live_schema(config.source_url, config.name, filter_.matches)
    if schema.known is None:
        found.notes.append("source: not compared with what its event triggers know: there are none")
    else:
        found.differences += _unseen(schema.known, schema.objects)
    for target in config.sinks() if config.target or config.targets else ():
        if isinstance(target.options, PostgresConfig):
            found.differences += _target_differences(schema, target, target.options)
        else:
            found.notes.append(f"{target.name}: not compared: only PostgreSQL targets are")
    return found


def _unseen(known: Objects, objects: Objects) -> list[LiveDifference]:
    """What the triggers have not seen."""
    found = []
    for key in {**known, **objects}:
        before, after = known.get(key), objects.get(key)
        if before is None or after is None:
            found.append(_difference(_SOURCE, after or before or {}, "dropped" if after is None else "new"))
            continue
        found += [_difference(_SOURCE, after, what) for what in differences(before, after)]
    return found


def _target_differences(schema: LiveSchema, target: Target, options: PostgresConfig) -> list[LiveDifference]:
    names = DescribedNames(target.renames, schema.owned)
    objects, version = _objects_of_target(options)
    wanted = {_name(each): each for each in map(names.renamed, schema.replicated.values())}
    held = {_name(each): each for each in objects.values()}
    theirs = {_name(each) for each in map(names.renamed, schema.objects.values())}  # replicated or not
    schemas = {name[1] for name in theirs}
    other_version = version // 10000 != schema.version // 10000
    found = []
    for name, each in wanted.items():
        if name not in held:
            found.append(_difference(target.name, each, _TARGET_WORDS.dropped))
            continue
        ours, their = _as_made(each), held[name]
        if other_version:
            ours, their = _without_texts(ours), _without_texts(their)
        found += [_difference(target.name, each, what) for what in differences(ours, their, _TARGET_WORDS)]
    found += [
        _difference(target.name, each, _TARGET_WORDS.added)
        for name, each in held.items()
        if name not in theirs and name[1] in schemas and each["kind"] not in _OWN
    ]
    return found


def _objects_of_target(options: PostgresConfig) -> tuple[Objects, int]:
    with open_target(options) as conn:
        try:
            return objects_of(conn), conn.info.server_version
        except psycopg.Error as exc:
            raise TargetError(
                f"could not describe the objects of {address(options)}: {one_line(exc)}",
                remedy="The role needs the right TEMPORARY on the target's database",
            ) from exc


def _as_made(definition: Definition) -> Definition:
    """An object of the source, as a target has it: some triggers are made otherwise on purpose."""
    state = definition.get("state")
    return {**definition, "state": _STATES[state]} if state in _STATES else definition


def _without_texts(definition: Definition) -> Definition:
    return {key: value for key, value in definition.items() if key not in _BY_VERSION}


def _name(definition: Definition) -> Name:
    return (
        definition["kind"],
        definition["schema"],
        definition.get("table", ""),
        definition["name"],
        definition.get("arguments", ""),
    )


def _difference(where: str, definition: Definition, what: str) -> LiveDifference:
    return LiveDifference(where, definition["kind"], name_of(definition), what)
