"""Changes of the schema among rows: the steps of a batch that has both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pgsluice.changelog.position import Copies, Lsn, Position
from pgsluice.errors import SchemaNotReadError, TableChangedError
from pgsluice.schema.catalog import describe_types
from pgsluice.schema.described_names import DescribedNames
from pgsluice.schema.entry import version_of
from pgsluice.schema.match import TablePattern
from pgsluice.schema.pgtypes import is_built_in
from pgsluice.source.schema_entries import read_entry
from pgsluice.source.snapshot.tables import owned_sequences
from pgsluice.state.dead_letter import DDL, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pgsluice.changelog.plan import LogRange
    from pgsluice.errors import ChangeRefusedError
    from pgsluice.pipeline.batch import LogStep
    from pgsluice.schema.entry import Definition, ObjectChange, SchemaEntry
    from pgsluice.schema.history import SchemaHistory
    from pgsluice.schema.renames import Renames, TableName
    from pgsluice.schema.table import PgType, TableVersion
    from pgsluice.source.relations import Catalog

_ROWS_FIRST: Final = ("CREATE TABLE AS", "SELECT INTO", "CREATE EXTENSION")
"""Commands that have written their rows before the server says what they made."""


def read_entries(
    ranges: Sequence[LogRange],
    takes: Callable[[Definition], bool],
    copies: Copies | None,
    history: SchemaHistory,
    *,
    schema_copied: bool,
) -> dict[LogRange, SchemaEntry]:
    """
    The changes of the schema among some ranges; of tables, what is wanted and was not copied with them.

    ``schema_copied``: the target got all other objects with the copy, too, as they were at its last point.
    """
    found = {}
    for range_ in ranges:
        if range_.schema:
            assert range_.opened is not None
            entry = history.as_called_then(Lsn(range_.opened.commit_lsn), read_entry(range_))
            _require_read(entry, Lsn(range_.opened.commit_lsn))
            is_copied = (copies or Copies()).last_point > range_.opened.commit_lsn
            if is_copied and schema_copied:
                found[range_] = replace(entry, changes=())
            else:
                needed = _needed(entry, range_.opened.commit_lsn, takes, copies or Copies())
                found[range_] = replace(needed, may_be_there=is_copied)
    return found


def _needed(
    entry: SchemaEntry, commit_lsn: int, takes: Callable[[Definition], bool], copies: Copies
) -> SchemaEntry:
    def is_needed(change: ObjectChange) -> bool:
        if change.definition.get("kind") != "table":
            return True
        described = [each for each in (change.before, change.after) if each]
        return any(map(takes, described)) and (copies.point_of(change.oid) or 0) <= commit_lsn

    return replace(entry, changes=tuple(filter(is_needed, entry.changes)))


def passed_over(
    entries: Iterable[SchemaEntry], carries: Callable[[Definition], bool], tables: Collection[TableVersion]
) -> set[int]:
    """Tables that were renamed out of the pipeline, or into it: they lack the rows of a while."""
    found = set()
    for change in (change for entry in entries for change in entry.changes):
        before, after = change.before, change.after
        if before is None or after is None:
            continue
        if after["kind"] == "table" and carries(before) != carries(after):
            found.add(change.oid)
        if change.renames_schema:
            schemas = before["name"], after["name"]
            for table in tables:
                old, new = (carries({"schema": schema, "name": table.name}) for schema in schemas)
                if table.schema in schemas and old != new:
                    found.add(table.relid)
    return found


def require_unchanged(ranges: Sequence[LogRange], copies: Copies) -> None:
    """Raise when a table is changed that was copied before: its copy has rows of another form."""
    for range_ in ranges:
        if range_.schema:
            assert range_.opened is not None
            for change in read_entry(range_).changes:
                point = copies.point_of(change.oid)
                changed = point is not None and point <= range_.opened.commit_lsn and change.reshapes
                if changed or (change.renames_schema and copies.points):
                    raise TableChangedError("a table was changed while it was copied anew")


def for_target(entry: SchemaEntry, renames: Renames, catalog: Catalog | None) -> SchemaEntry:
    """The entry with the names of the target, and with its tables as rows have them."""
    types, names = _types(entry, catalog), DescribedNames(renames, _owned(entry, renames, catalog))

    def changed(change: ObjectChange) -> ObjectChange:
        old, new = (
            renames.version(version_of(change.oid, each, types)) if each and each["kind"] == "table" else None
            for each in (change.before, change.after)
        )
        if new is not None and old is not None:
            former = tuple((column.number, column.name) for column in old.columns)
            new = replace(new, former=former)
        return replace(
            change,
            before=names.renamed(change.before) if change.before else None,
            after=names.renamed(change.after) if change.after else None,
            identity=names.identity(str(change.dropped), change.identity) if change.identity else None,
            part_of=renames.sql(change.part_of) if change.part_of else None,
            old=old,
            new=new,
        )

    return replace(entry, changes=tuple(map(changed, entry.changes)))


def _owned(entry: SchemaEntry, renames: Renames, catalog: Catalog | None) -> dict[TableName, TableName]:
    """The tables that sequences belong to, where names differ: as they are now, and as the entry says."""
    if not renames.tables:
        return {}
    owned = {}
    if catalog is not None:
        with catalog() as conn:
            owned = owned_sequences(conn)
    for change in entry.changes:
        of = change.after or {}
        if of.get("kind") == "sequence" and "owned_by" in of:
            table = TablePattern.parse(of["owned_by"].rpartition(".")[0])
            owned[of["schema"], of["name"]] = table.schema or "", table.table or ""
    return owned


def _types(entry: SchemaEntry, catalog: Catalog | None) -> Mapping[int, PgType]:
    """The types of columns that are not built in, as far as the source has them still."""
    used = {
        column["type_id"]
        for change in entry.changes
        for each in (change.before, change.after)
        if each and each["kind"] == "table"
        for column in each["columns"]
    }
    own = [oid for oid in used if not is_built_in(oid)]
    if not own or catalog is None:
        return {}
    with catalog() as conn:
        return describe_types(conn, own)


def refused_change(error: ChangeRefusedError, entries: Mapping[LogRange, SchemaEntry]) -> Refused:
    """The letter for a change that a target did not make; rows of its table wait behind it."""
    for range_, entry in entries.items():
        for change in entry.changes:
            if (entry.id, change.oid) == (error.fields["entry"], error.fields["object"]):
                assert range_.opened is not None
                of = change.definition
                position = Position(Lsn(range_.opened.commit_lsn), range_.opened.seq)
                name = f"{of['schema']}.{of['name']}"
                return Refused(name, position, DDL, change.oid, (), (), error.code, error.message)
    raise error


def with_copied_anew(
    entries: Mapping[LogRange, SchemaEntry], relids: Collection[int]
) -> dict[LogRange, SchemaEntry]:
    """The entries, which say of tables that their rows come anew."""
    return {
        range_: replace(
            entry, changes=tuple(replace(each, anew=each.oid in relids) for each in entry.changes)
        )
        for range_, entry in entries.items()
    }


def without_changes(
    entries: Mapping[LogRange, SchemaEntry], refused: Collection[Refused]
) -> dict[LogRange, SchemaEntry]:
    """The entries without changes that are put aside."""
    left_out = {(each.position.commit_lsn, each.position.seq, each.version) for each in refused}

    def is_made(range_: LogRange, change: ObjectChange) -> bool:
        assert range_.opened is not None
        return (range_.opened.commit_lsn, range_.opened.seq, change.oid) not in left_out

    return {
        range_: replace(entry, changes=tuple(each for each in entry.changes if is_made(range_, each)))
        for range_, entry in entries.items()
    }


def steps_of(
    ranges: Sequence[LogRange],
    entries: Mapping[LogRange, SchemaEntry],
    rows_of: Callable[[tuple[LogRange, ...]], LogStep],
    change_of: Callable[[SchemaEntry], LogStep],
) -> list[LogStep]:
    """The steps of some ranges, in order."""
    steps: list[LogStep] = []
    waiting: list[LogRange] = []

    def hand_out() -> None:
        if waiting:
            steps.append(rows_of(tuple(waiting)))
            waiting.clear()

    for range_ in ranges:
        if range_ not in entries:
            waiting.append(range_)
            continue
        if entries[range_].tag not in _ROWS_FIRST:
            hand_out()
        steps.append(change_of(entries[range_]))
    hand_out()
    return steps


def _require_read(entry: SchemaEntry, position: Lsn) -> None:
    if entry.problem is not None:
        raise SchemaNotReadError(
            f"the source could not say what {entry.tag} changed, at {position}: {entry.problem}",
            remedy="Make the same change in the target by hand, and set schema_changes: ignore for one "
            f"start; pgsluice schema log --json has the statement, as entry {entry.id}",
            entry=entry.id,
            position=str(position),
        )
