"""
Which tables a publication shall hold, decided from the catalog alone.

Nothing here talks to a server: :func:`choose` takes what :mod:`pgsluice.source.identity` read, and
:mod:`pgsluice.source.publication` carries the plan out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pgsluice.errors import ConfigError, UnsafePublicationError
from pgsluice.schema.match import TableMatcher, is_system_schema
from pgsluice.source.identity import GENERATED_COUNT_FROM, SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Scope = Literal["list", "schemas", "all"]
"""An explicit list of tables, FOR TABLES IN SCHEMA, or FOR ALL TABLES."""

Keyless = Literal["leave_out", "full"]
"""What becomes of tables without a usable identity: not published, or REPLICA IDENTITY FULL."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for; kept on the source so that the list can be kept up to date."""

    scope: Scope = "list"
    include: tuple[str, ...] = ("*.*",)
    exclude: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    keyless: Keyless = "leave_out"
    schema_only: tuple[str, ...] = ()

    @property
    def matcher(self) -> TableMatcher:
        """The patterns."""
        return TableMatcher.parse(self.include, self.exclude, self.schema_only)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for the record on the source."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Selection:
        """Read a record back."""
        given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
        return cls(**given)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table that was asked for and is not published."""

    table: SourceTable
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a publication shall hold."""

    entries: tuple[SourceTable, ...]  # what the list names: tables, leaf partitions, whole partitioned tables
    published: tuple[SourceTable, ...]  # the tables whose rows will be in the stream
    to_full: tuple[SourceTable, ...]  # tables that need REPLICA IDENTITY FULL first
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...] = ()


def choose(tables: Iterable[SourceTable], selection: Selection, version: int) -> Plan:
    """Decide what is published; refuse what would make the application's writes fail."""
    everything = tuple(tables)
    if selection.scope == "list":
        return _choose_list(everything, selection, version)
    return _choose_whole(everything, selection, version)


def _choose_list(tables: tuple[SourceTable, ...], selection: Selection, version: int) -> Plan:
    by_id = {table.relid: table for table in tables}
    matcher = selection.matcher
    published, to_full, left_out = [], [], []
    for table in tables:
        if table.kind != "r" or not _wanted(table, by_id, matcher):
            continue
        if table.extension:
            left_out.append(LeftOut(table, f"belongs to extension {table.extension}"))
        elif table.usable:
            published.append(table)
        elif selection.keyless == "full" and _full_helps(table, version):
            published.append(table)
            to_full.append(table)
        else:
            left_out.append(LeftOut(table, table.problem))
    entries = _entries(tables, {table.relid for table in published if table.usable}, published, matcher)
    unmatched = tuple(matcher.unmatched((table.schema, table.name) for table in tables))
    return Plan(entries, tuple(published), tuple(to_full), tuple(left_out), unmatched)


def require_tables(plan: Plan, selection: Selection) -> None:
    """Raise when names that were given match nothing: a mistyped one would take all tables off."""
    if (
        plan.warnings
        and not plan.published
        and not plan.left_out
        and selection.include != Selection().include
    ):
        raise ConfigError(
            f"nothing is left to replicate: {'; '.join(plan.warnings)}", remedy="Name tables that there are"
        )


def schema_only(tables: Iterable[SourceTable], selection: Selection) -> list[SourceTable]:
    """The tables of which targets get the definition and no rows."""
    if selection.scope != "list":
        return []
    matcher = selection.matcher
    return [table for table in tables if matcher.kind(table.schema, table.name) == "schema_only"]


def _choose_whole(tables: tuple[SourceTable, ...], selection: Selection, version: int) -> Plan:
    inside = tuple(
        table
        for table in tables
        if table.kind == "r" and (selection.scope == "all" or table.schema in selection.schemas)
    )
    unusable = [table for table in inside if not table.usable]
    hopeless = [t for t in unusable if selection.keyless != "full" or not _full_helps(t, version)]
    if hopeless:
        raise _unsafe(hopeless, selection)
    ours = tuple(table for table in inside if not is_system_schema(table.schema))
    return Plan((), ours, tuple(unusable), ())


def _unsafe(tables: list[SourceTable], selection: Selection) -> UnsafePublicationError:
    flag = "--all-tables" if selection.scope == "all" else "--schemas"
    named = ", ".join(f"{table.qualified} ({table.problem})" for table in tables[:10])
    more = f" and {len(tables) - 10} more" if len(tables) > 10 else ""
    return UnsafePublicationError(
        f"{flag} would make UPDATE and DELETE fail on: {named}{more}",
        remedy="Give these tables a primary key, or add --keyless full (REPLICA IDENTITY FULL), "
        f"or publish a list instead of {flag}, which leaves them out",
        tables=[table.qualified for table in tables],
    )


def _wanted(table: SourceTable, by_id: Mapping[int, SourceTable], matcher: TableMatcher) -> bool:
    """A partition is wanted by its own name or its root's, and unwanted as soon as either is excluded."""
    root = by_id.get(table.root) if table.root else None
    names = [(named.schema, named.name) for named in (table, root) if named]
    if any(pattern.matches(*name) for pattern in matcher.exclude for name in names):
        return False
    return any(matcher.matches(*name) for name in names)


def _full_helps(table: SourceTable, version: int) -> bool:
    return not (table.has_generated and version >= GENERATED_COUNT_FROM)


def _entries(
    tables: tuple[SourceTable, ...],
    usable: set[int],
    published: list[SourceTable],
    matcher: TableMatcher,
) -> tuple[SourceTable, ...]:
    """
    Name a partitioned table instead of its partitions where that is safe.

    Partitions made later are then in the stream from their first row. It is safe when every partition is
    published with an identity of its own and the root's key, which new ones inherit, is usable too: FULL is
    not inherited, and a new partition without an identity would refuse UPDATE.
    """
    leaves: dict[int, list[SourceTable]] = {}
    for table in tables:
        if table.kind == "r" and table.root:
            leaves.setdefault(table.root, []).append(table)
    whole = [
        table
        for table in tables
        if table.kind == "p" and not table.root and not table.extension
        and table.usable and table.identity == "d"
        and matcher.matches(table.schema, table.name)
        and all(leaf.relid in usable for leaf in leaves.get(table.relid, ()))
    ]  # fmt: skip
    covered = {table.relid for table in whole}
    return (*whole, *(table for table in published if table.root not in covered))
