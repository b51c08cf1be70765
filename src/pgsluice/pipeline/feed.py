"""
From slices of the log to batches of one sink: rows, changes of the schema among them, and transactions that
are still coming in.

Everything goes through :class:`pgsluice.pipeline.standing.Standing`: a batch counts once the sink has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgsluice.changelog.arriving import BrokenOffError
from pgsluice.errors import TableChangedError
from pgsluice.modifiers.chain import Modification
from pgsluice.pipeline.arriving import ArrivingStep, EarlyStart
from pgsluice.pipeline.batch import LogBatch, LogStep, SchemaStep, errors_of_jobs
from pgsluice.pipeline.late_views import with_late_views
from pgsluice.pipeline.modified_entries import hides_words, modified_entry
from pgsluice.pipeline.passed_entries import PassedEntries, passed_entries
from pgsluice.pipeline.schema_steps import (
    for_target,
    passed_over,
    read_entries,
    refused_change,
    require_unchanged,
    steps_of,
    with_copied_anew,
    without_changes,
)
from pgsluice.pipeline.schema_versions import note_entries
from pgsluice.schema.catalog import tables_with
from pgsluice.sinks.base import TakesSchema, keeps_texts
from pgsluice.source.schema_entries import read_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.changelog.plan import LogRange, LogSlice
    from pgsluice.changelog.position import Copies, Lsn
    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.ahead import ReadAhead
    from pgsluice.pipeline.anew import TablesAnew
    from pgsluice.pipeline.copy import CopySource
    from pgsluice.pipeline.intake import Intake
    from pgsluice.pipeline.letters.desk import Desk
    from pgsluice.pipeline.modified_entries import ModifiedEntry
    from pgsluice.pipeline.standing import Standing
    from pgsluice.schema.entry import ObjectChange, SchemaEntry
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion
    from pgsluice.source.relations import Catalog, DecodableRange, Relations
    from pgsluice.state.dead_letter import Refused


@dataclass(frozen=True, slots=True)
class Way:
    """What the changes of one sink go through."""

    chain: Chain
    session: Callable[[], SparkSession]
    scratch: Path
    desk: Desk | None  # for rows that the target refuses
    source: CopySource | None  # None: tables are never copied
    catalog: Catalog | None
    copies_first: bool  # whether tables that are not there yet are copied
    copies_once: bool  # beside another loop: tables that change are begun with again
    applies_schema: bool
    copies_schema: bool  # whether the copy of tables makes all other objects as well
    injects: bool  # whether the target asks for identities


class Feed:
    """Hands slices over to a sink, in order."""

    def __init__(
        self, standing: Standing, way: Way, anew: TablesAnew, intake: Intake, ahead: ReadAhead
    ) -> None:
        self._standing = standing
        self._way = way
        self._anew = anew
        self._intake = intake
        self._ahead = ahead
        rest = Modification(), way.session, way.scratch  # only what no modifier has to see begins early
        self._early = EarlyStart(
            standing.sink, standing.reader, lambda *parts: ArrivingStep(*parts, standing.stopping, *rest)
        )
        self._copied_names: dict[int, str] = {}  # of the tables that are copied, by relid
        self.met: dict[int, TableVersion] = {}  # the version in which a table came last, by relid

    def begin(self, store: SchemaStore, relations: Relations) -> None:
        """The tables of the log, for the loop's own thread."""
        self._store = store
        self._relations = relations

    def know_copies(self) -> None:
        """Keep what tables are called that were copied: others may take their names."""
        copies = self._standing.copies
        if copies is not None and copies.points:
            self._copied_names = {version.relid: version.qualified for version in self._store.versions()}

    def apply(self, slice_: LogSlice, ready: LogStep | None, last: Lsn | None) -> None:
        """One slice; ``ready`` is its step if it was read ahead, and nothing after ``last`` is read so."""
        standing = self._standing
        if slice_.changes_schema and self._way.copies_once and standing.copies is not None:
            require_unchanged(slice_.ranges, standing.copies)
        if slice_.changes_schema and not standing.with_patience(
            lambda: note_entries(standing.reader, self._store.history, slice_.end)
        ):
            return
        if slice_.changes_schema and self._way.applies_schema:
            self._apply_with_schema(slice_)
            return
        step = ready
        end = ""

        def once() -> None:
            nonlocal step, end
            step = step or self._step(slice_)
            self._intake.under_load = not (step.small or self._intake.on_driver)
            if self._intake.under_load:
                self._ahead.begin(
                    step, lambda most: self._intake.read_large(slice_.end, last, most), self._step
                )
            end = standing.progress(slice_.end).encode()
            self._hand_over(LogBatch(standing.token, end, (step,), held=standing.copied_tables), slice_)

        if standing.with_patience(once):
            assert step is not None
            standing.applied(slice_.end, end, slice_.changes, (step,))
            standing.facts.schema_changes += slice_.changes_schema

    def _apply_with_schema(self, slice_: LogSlice) -> None:
        """Rows and changes of the schema, in the order of the source and in one go."""
        standing = self._standing
        entries: Mapping[LogRange, SchemaEntry] = {}
        rewritten: set[int] = set()
        renamed: set[int] = set()

        def read() -> None:  # the source is asked for what the log does not have
            nonlocal entries, rewritten, renamed
            noted = self._noted(slice_)
            renamed = self._pass_over(noted.values())
            modified = {range_: self._modified(entry) for range_, entry in noted.items()}
            entries = {
                range_: for_target(each.entry, standing.renames, self._way.catalog)
                for range_, each in modified.items()
            }
            changes = [change for entry in entries.values() for change in entry.changes]
            self._note_made(changes, slice_.start)
            anew = self._with_other_rows(changes).union(*(each.anew for each in modified.values()))
            rewritten = anew & standing.copied_tables

        if not standing.with_patience(read):
            return
        held = standing.copied_tables
        entries = with_copied_anew(entries, rewritten)
        anew = (*standing.left_alone, *sorted(rewritten - {*standing.left_alone}))
        has_views = isinstance(standing.sink, TakesSchema)
        entries, views = with_late_views(entries, standing.late_views, late=has_views and bool(anew))
        end = ""
        steps: Sequence[LogStep] = ()

        def made(without: Collection[Refused]) -> LogBatch:
            nonlocal end, steps
            steps = steps_of(  # first: a table that has to be copied before moves the progress
                slice_.ranges,
                without_changes(entries, without),
                lambda ranges: self._step(replace(slice_, ranges=ranges)),
                lambda entry: SchemaStep(entry, self._way.session, self._way.scratch),
            )
            anew = (*standing.left_alone, *sorted(rewritten - {*standing.left_alone}))  # may have grown
            end = replace(standing.progress(slice_.end), anew=anew, views=views).encode()
            return LogBatch(standing.token, end, steps, held=held)

        def once() -> None:
            if rewritten:
                self._anew.forget_earlier()
            self._hand_over_with_schema(made, slice_, entries)

        if standing.with_patience(once):
            standing.applied(slice_.end, end, slice_.changes, steps)
            standing.facts.schema_changes += 1
            standing.late_views = views
            if rewritten:
                standing.with_patience(lambda: self._anew.take_rewritten(rewritten))
            if renamed:
                standing.with_patience(lambda: self._anew.offer_again(renamed))

    def _pass_over(self, entries: Collection[SchemaEntry]) -> set[int]:
        """Note which tables have another name by which they are out of the pipeline, or in it again."""
        standing, source = self._standing, self._way.source
        if source is None or standing.copies is None:
            return set()
        newest = {version.relid: version for version in self._store.versions()}
        found = passed_over(entries, source.carries, newest.values()) & standing.copied_tables
        if found:
            left = tuple(sorted({*standing.copies.left} | found))
            standing.copies = replace(standing.copies, left=left)
        return found

    def _noted(self, slice_: LogSlice) -> dict[LogRange, SchemaEntry]:
        """The changes of the schema in a slice, as the source has noted them."""
        standing, source = self._standing, self._way.source
        takes = source.takes if source is not None else lambda _: True
        return read_entries(
            slice_.ranges,
            takes,
            standing.copies,
            self._store.history,
            schema_copied=self._way.copies_schema,
        )

    def _modified(self, entry: SchemaEntry) -> ModifiedEntry:
        source = self._way.source
        carries = source.carries if source is not None else lambda _: True
        return modified_entry(entry, self._way.chain, carries)

    def _with_other_rows(self, changes: Sequence[ObjectChange]) -> set[int]:
        """Tables whose rows have changed without a word in the stream."""
        source, catalog = self._way.source, self._way.catalog
        lists = source is not None and source.lists_tables
        found = {change.oid for change in changes if change.rewritten or (lists and change.is_attached)}
        if keeps_texts(self._standing.sink):
            found |= {change.oid for change in changes if change.fills}
            reworded = [change.oid for change in changes if change.rewords]
            if reworded and catalog is not None:
                with catalog() as conn:
                    found |= tables_with(conn, reworded)
        return found

    def _hand_over(self, batch: LogBatch, slice_: LogSlice) -> None:
        with errors_of_jobs():  # of a sink that reads frames
            if self._way.desk is None:
                self._standing.sink.apply(batch)
            else:
                self._way.desk.apply(batch, slice_.start, slice_.end)

    def _hand_over_with_schema(
        self,
        made: Callable[[Collection[Refused]], LogBatch],
        slice_: LogSlice,
        entries: Mapping[LogRange, SchemaEntry],
    ) -> None:
        if self._way.desk is None:
            self._standing.sink.apply(made(()))
        else:
            self._way.desk.apply_with_schema(
                made, (slice_.start, slice_.end), lambda error: refused_change(error, entries)
            )

    def _note_made(self, changes: Sequence[ObjectChange], position: Lsn) -> None:
        """A table that is made in the stream lacks nothing, if it is published from then on."""
        copies = self._standing.copies
        if copies is not None:
            lists = self._way.source is not None and self._way.source.lists_tables
            made = [
                each.oid
                for each in changes
                if each.before is None
                and each.definition.get("kind") == "table"
                and (not lists or "bound" in each.definition)
            ]
            self._standing.copies = copies.with_copied(position, made) if made else copies

    def apply_arriving(self) -> bool:
        """Begin with a transaction that is still coming in; False when there is none to begin with."""
        if not self._may_begin_early():
            return False
        standing, position = self._standing, self._standing.position
        begun = self._early.begin(
            position,
            standing.token,
            lambda ranges: self._resolve_early(ranges, position),
            lambda end: standing.progress(end).encode(),
            standing.copied_tables,
        )
        if begun is None:
            return False
        if begun.token is not None:
            standing.applied(begun.end, begun.token, begun.changes)
            standing.facts.early += 1
        elif begun.end:  # it may have been committed, and only the reply was lost: the very same once more
            whole = standing.reader.next(position, 1, until=begun.end)
            if whole is not None:  # else a failed sync has cut it after all
                self.apply(whole, None, None)
        return True

    def _may_begin_early(self) -> bool:
        """Whether nothing but the next transaction's own end is missing."""
        desk = self._way.desk
        return (
            self._early.possible
            and self._intake.on_driver
            and not self._intake.waits
            and not self._standing.left_alone
            and (desk is None or desk.is_empty)
        )

    def _step(self, slice_: LogSlice) -> LogStep:
        chain = self._way.chain
        parts, tables = self._resolve(slice_.ranges, slice_.start)
        passed = self._passed(slice_)  # first: columns are known by their names at that time
        modification = chain.of(tables, injects=self._way.injects)
        if passed:
            modification = modification.then(passed)
        return LogStep(
            parts,
            self._renamed({number: chain.narrowed(version) for number, version in tables.items()}),
            modification,
            self._way.session,
            self._way.scratch,
            small=self._intake.is_small(slice_),
            on_driver=self._intake.on_driver and not modification,
        )

    def _passed(self, slice_: LogSlice) -> PassedEntries:
        """What is left of the changes of the schema in a slice, for a target that is given them as rows."""
        entries = [read_entry(range_) for range_ in slice_.ranges if range_.schema]
        return passed_entries(
            entries,
            self._way.source,
            lambda entry: self._modified(entry).entry,
            hides=hides_words(self._way.chain),
        )

    def _resolve(
        self, ranges: Sequence[LogRange], after: Lsn, *, early: bool = False
    ) -> tuple[list[DecodableRange], dict[int, TableVersion]]:
        """Ranges that follow a position, ready to be decoded, with their tables."""
        parts, tables = self._relations.resolve(ranges)
        copies = self._standing.copies
        if self._way.copies_first and early and self._anew.unknown(tables.values(), copies):
            raise BrokenOffError  # a table that has to be copied before
        if self._way.copies_first and self._anew.take_unknown(tables.values(), copies):
            parts, tables = self._relations.resolve(ranges)
        if (copies := self._standing.copies) is not None:
            copied = tuple(
                (version.id, int(lsn))
                for version in tables.values()
                if (lsn := self._copied_at(version, copies, after)) is not None
            )
            parts = [replace(part, copied=copied) for part in parts]
        self._note_met(tables.values())
        return parts, dict(tables)

    def _resolve_early(
        self, ranges: Sequence[LogRange], after: Lsn
    ) -> tuple[list[DecodableRange], dict[int, TableVersion]]:
        """The same for ranges of a transaction whose end is not there yet, as the target calls its tables."""
        parts, tables = self._resolve(ranges, after, early=True)
        return parts, self._renamed(tables)

    def _renamed(self, tables: Mapping[int, TableVersion]) -> dict[int, TableVersion]:
        renames = self._standing.renames
        return {number: renames.version(version) for number, version in tables.items()}

    def _note_met(self, versions: Iterable[TableVersion]) -> None:
        for version in versions:
            known = self.met.get(version.relid)
            if self._way.copies_once and known is not None and known.columns != version.columns:
                raise TableChangedError(f"{version.qualified} was changed while it was copied anew")
            self.met[version.relid] = version

    def _copied_at(self, version: TableVersion, copies: Copies, after: Lsn) -> Lsn | None:
        """Where a table was copied last, if after a position; or one that took its name since."""
        names = self._copied_names
        if self._way.copies_schema and self._way.applies_schema and version.relid not in copies.tables:
            # It was gone at the last point, or it had been copied there.
            return copies.last_point if copies.last_point > after else None
        points = [
            lsn
            for lsn, relids in copies.points.items()
            if lsn > after
            and any(relid == version.relid or names.get(relid) == version.qualified for relid in relids)
        ]
        return max(points, default=None)
