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
from pgsluice.pipeline.arriving import ArrivingStep, EarlyStart
from pgsluice.pipeline.batch import LogBatch, LogStep, SchemaStep
from pgsluice.pipeline.late_views import with_late_views
from pgsluice.pipeline.schema_steps import (
    for_target,
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
        rest = way.chain, way.session, way.scratch
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
            self._hand_over(LogBatch(standing.token, end, (step,)), slice_)

        if standing.with_patience(once):
            standing.applied(slice_.end, end, slice_.changes)
            standing.facts.schema_changes += slice_.changes_schema

    def _apply_with_schema(self, slice_: LogSlice) -> None:
        """Rows and changes of the schema, in the order of the source and in one go."""
        standing, source = self._standing, self._way.source
        wanted = source.wanted if source is not None else lambda *_: True
        entries = {
            range_: for_target(entry, standing.renames, self._way.catalog)
            for range_, entry in read_entries(slice_.ranges, wanted, standing.copies).items()
        }
        changes = [change for entry in entries.values() for change in entry.changes]
        self._note_made(changes, slice_.start)
        rewritten = self._with_other_rows(changes) & standing.copied_tables
        entries = with_copied_anew(entries, rewritten)
        anew = (*standing.left_alone, *sorted(rewritten - {*standing.left_alone}))
        has_views = isinstance(standing.sink, TakesSchema)
        entries, views = with_late_views(entries, standing.late_views, late=has_views and bool(anew))
        end = ""

        def made(without: Collection[Refused]) -> LogBatch:
            nonlocal end
            steps = steps_of(  # first: a table that has to be copied before moves the progress
                slice_.ranges,
                without_changes(entries, without),
                lambda ranges: self._step(replace(slice_, ranges=ranges)),
                lambda entry: SchemaStep(entry, self._way.session, self._way.scratch),
            )
            anew = (*standing.left_alone, *sorted(rewritten - {*standing.left_alone}))  # may have grown
            end = replace(standing.progress(slice_.end), anew=anew, views=views).encode()
            return LogBatch(standing.token, end, steps)

        def once() -> None:
            if rewritten:
                self._anew.forget_earlier()
            self._hand_over_with_schema(made, slice_, entries)

        if standing.with_patience(once):
            standing.applied(slice_.end, end, slice_.changes)
            standing.facts.schema_changes += 1
            standing.late_views = views
            if rewritten:
                standing.with_patience(lambda: self._anew.take_rewritten(rewritten))

    def _with_other_rows(self, changes: Sequence[ObjectChange]) -> set[int]:
        """Tables whose rows have changed without a word in the stream."""
        source, catalog = self._way.source, self._way.catalog
        lists = source is not None and source.lists_tables
        found = {change.oid for change in changes if change.rewritten or (lists and change.is_attached)}
        reworded = [change.oid for change in changes if change.rewords]
        if reworded and catalog is not None and keeps_texts(self._standing.sink):
            with catalog() as conn:
                found |= tables_with(conn, reworded)
        return found

    def _hand_over(self, batch: LogBatch, slice_: LogSlice) -> None:
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
            lambda ranges: self._resolve(ranges, position, early=True),
            lambda end: standing.progress(end).encode(),
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
        parts, tables = self._resolve(slice_.ranges, slice_.start)
        return LogStep(
            parts,
            tables,
            self._way.chain,
            self._way.session,
            self._way.scratch,
            small=self._intake.is_small(slice_),
            on_driver=self._intake.on_driver,
        )

    def _resolve(
        self, ranges: Sequence[LogRange], after: Lsn, *, early: bool = False
    ) -> tuple[list[DecodableRange], dict[int, TableVersion]]:
        """Ranges that follow a position, ready to be decoded, with their tables as the target calls them."""
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
        renames = self._standing.renames
        return parts, {number: renames.version(version) for number, version in tables.items()}

    def _note_met(self, versions: Iterable[TableVersion]) -> None:
        for version in versions:
            known = self.met.get(version.relid)
            if self._way.copies_once and known is not None and known.columns != version.columns:
                raise TableChangedError(f"{version.qualified} was changed while it was copied anew")
            self.met[version.relid] = version

    def _copied_at(self, version: TableVersion, copies: Copies, after: Lsn) -> Lsn | None:
        """Where a table was copied last, if after a position; or one that took its name since."""
        names = self._copied_names
        points = [
            lsn
            for lsn, relids in copies.points.items()
            if lsn > after
            and any(relid == version.relid or names.get(relid) == version.qualified for relid in relids)
        ]
        return max(points, default=None)
