"""
Copying the tables of a source into one sink, before its stream begins.

All tables are copied at one point of the stream, and the stream goes on from there: nothing is missing and
nothing comes twice. Ranges are batches like others, and what is copied is in the sink's own progress: after
a crash the tables that were finished stay as they are. The snapshot is gone then, so the others are copied at
a new point; the stream begins at the first one, and changes that a later copy has already are left out of it
(:class:`~pgsluice.changelog.position.Copies`). A table that was copied in part is gone on with: its other
pages are copied at the new point, and rows that were touched between the two are copied again by their keys,
which the log has. Without a key, without a log, or when its rows are elsewhere now (TRUNCATE, VACUUM FULL),
it is emptied and begun again.

A table that is rewritten meanwhile (TRUNCATE, VACUUM FULL, ALTER) is set aside until all others are copied,
and then has a point for itself: one that is truncated again and again holds up nobody else.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.changelog.position import Copies, Lsn, Progress
from pgsluice.errors import SourceError, TableRewrittenError, TargetError, WrongSystemError
from pgsluice.pipeline.batch import LogBatch, LogStep
from pgsluice.pipeline.copy_plan import CopyPlan, CopyStep, after
from pgsluice.pipeline.copy_report import CopyReport
from pgsluice.pipeline.modify import know_tables
from pgsluice.pipeline.policy import after_error, with_patience
from pgsluice.pipeline.schema_copy import read_schema
from pgsluice.pipeline.session import error_of_job
from pgsluice.postgres.session import has_relation
from pgsluice.sinks.base import HoldsTables, SharesTables, takes_identity
from pgsluice.source.connect import connect, source_errors, wal_position
from pgsluice.source.schema_log import has_changed_since, last_entries
from pgsluice.source.snapshot.point import hold_point
from pgsluice.source.snapshot.tables import rewritten_tables

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.copy_plan import CopyBatch
    from pgsluice.pipeline.loop_facts import LoopFacts
    from pgsluice.pipeline.schema_copy import SchemaCopy
    from pgsluice.pipeline.touched import TouchedKeys
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.entry import Definition
    from pgsluice.schema.match import MatchKind, TableMatcher
    from pgsluice.schema.renames import Renames
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Sink
    from pgsluice.source.snapshot.point import Point
    from pgsluice.source.snapshot.tables import CopiedTable

logger = structlog.get_logger(__name__)

_REWRITTEN_BACKOFF: Final = 2  # steps
SMALL_BYTES: Final = 8 << 20  # up to it the driver copies alone: not worth starting Spark for


@dataclass(frozen=True, slots=True)
class CopySource:
    """Where tables are copied from."""

    url: str
    tables: Callable[[Connection], list[CopiedTable]]  # what there is, at the point of a connection
    wanted: Callable[[str, str], bool]
    definitions: Callable[[Connection], list[int]]  # further tables, of which only the definition is wanted
    lists_tables: bool = (
        True  # whether the publication has a list: what is attached comes into the stream then
    )
    listed: TableMatcher | None = None  # the names on that list, where it is ours

    def takes(self, table: Definition) -> bool:
        """Whether a target gets a table that is described so, with or without rows."""
        return self.wanted(table["schema"], table["name"]) and (
            "bound" in table or self._kind(table["schema"], table["name"]) is not None
        )

    def carries(self, table: Definition) -> bool:
        """Whether rows come of it; those of a partition also by its root's name, which is not told here."""
        return self.takes(table) and ("bound" in table or self.lists(table["schema"], table["name"]))

    def lists(self, schema: str, name: str) -> bool:
        """Whether the list has a table under its own name."""
        return self._kind(schema, name) == "data"

    def _kind(self, schema: str, name: str) -> MatchKind | None:
        return "data" if self.listed is None else self.listed.kind(schema, name)


class TableCopy:
    """The copy of all tables into one sink."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        source: CopySource,
        *,
        store: SchemaStore,
        chain: Chain,
        renames: Renames,
        spark: Callable[[], SparkSession],
        scratch: Path,
        stopping: threading.Event,
        facts: LoopFacts,
        touched: TouchedKeys | None = None,
    ) -> None:
        self._name = name
        self._sink = sink
        self._source = source
        self._store = store
        self._chain = chain
        self._renames = renames
        self._spark = spark
        self._scratch = scratch
        self._stopping = stopping
        self._facts = facts  # where others see how far it is
        self._touched = touched
        self._plan = CopyPlan(source.url, store, touched)
        self._report = CopyReport(scratch, name)
        self._token: str | None = None
        self.versions: dict[int, TableVersion] = {}  # in which tables were copied, by relid
        self._restless: dict[int, None] = {}  # tables that were rewritten while they were copied, in order

    def run(self, token: str | None) -> str | None:
        """Copy what ``token`` does not have; the token after it, or None when stopped before the end."""
        self._token = token
        for attempt in count():
            try:
                if self._copy_at_a_new_point():
                    return self._token
            except Exception as exc:
                error = error_of_job(exc) or exc
                # That a table was rewritten is no trouble of a server, which would want to be left alone.
                rewritten = isinstance(error, TableRewrittenError)
                retry = after_error(error, min(attempt, _REWRITTEN_BACKOFF) if rewritten else attempt)
                if retry is None:
                    raise error from exc
                logger.warning("copy broke off, going on at a new point", sink=self._name, reason=str(error))
                self._stopping.wait(retry.seconds)
            if self._stopping.is_set():
                return None
        return None

    def _copy_at_a_new_point(self) -> bool:
        if not self._takes_ranges and getattr(self._sink, "has_unfinished_ranges", False):
            raise TargetError(
                f"the first copy into {self._name!r} was broken off, and can only go on as it began",
                remedy="Put on_conflict and modifiers back until it is finished; or begin anew with an empty "
                "target",
            )
        with hold_point(self._source.url) as point, self._schema_of_point(point) as require_schema:
            before = self._progress(point)
            assert before.copies is not None
            published = self._wanted(self._source.tables(point.conn))
            self._renames.require_distinct(
                (table.relation.schema, table.relation.name) for table in published
            )
            self._note_unused_names(point.conn)
            know_tables(self._chain, point.conn, [table.relation.relid for table in published])
            schema = read_schema(
                self._name,
                self._sink,
                self._source,
                self._renames,
                point.conn,
                published,
                self._chain,
                point.snapshot,
            )
            if schema is not None:
                require_schema()
            if schema is not None and self._is_outdated(schema, before, point):
                before = self._unmade(schema, before)
            assert before.copies is not None
            missing = self._missing(published, before.copies)
            tables = self._next_ones(missing)
            logger.info(
                "copying tables",
                sink=self._name,
                tables=len(tables),
                bytes=sum(table.bytes for table in tables),
                position=str(point.lsn),
            )
            to_empty = self._to_empty(tables, before.copies)
            self._refuse_emptying(table for table in tables if table.relation.relid in to_empty)
            batches = list(self._plan.batches(tables, point, before.copies, to_empty, raw=self._takes_ranges))
            self.versions |= {each.relid: each for batch in batches for each in batch.versions.values()}
            self._report.begin(str(point.lsn), batches)
            are_last = len(tables) == len(missing)
            with self._noting_rewritten(tables), self._schema(schema, point, are_last=are_last):
                if not self._apply_all(batches, before, point.lsn) or not are_last:
                    return False
        if not self._finish(before, point.lsn, [table.relation.relid for table in tables]):
            return False
        if schema is not None:
            schema.sink.finish_making()
        return True

    @contextmanager
    def _schema_of_point(self, point: Point) -> Iterator[Callable[[], None]]:
        """
        Around all that is read at a point; gives what raises when the schema has become another since.

        Of the catalogs the server shows some as they were at the point, and others as they are now. So what
        is refused in between, by it or by the target, may be right at the next point.
        """
        url, seen = self._source.url, last_entries(point.conn)

        def require_schema() -> None:
            if has_changed_since(url, seen):
                raise TableRewrittenError("the schema was changed while it was read")

        try:
            yield require_schema
        except Exception as exc:
            error = error_of_job(exc) or exc
            if not isinstance(error, (SourceError, TargetError)) or error.transient:
                raise
            if not has_changed_since(url, seen):
                raise
            raise TableRewrittenError(f"the schema was changed while it was copied: {error}") from exc

    def _is_outdated(self, schema: SchemaCopy, before: Progress, point: Point) -> bool:
        """Whether the source has changed what an unfinished copy has made and filled."""
        assert before.copies is not None
        if before.copies.finished:
            return False
        held = before.copies.tables | {*before.copies.begun}
        return schema.is_outdated or (
            self._touched is not None
            and bool(held)
            and self._touched.has_reshaped(held, before.end_lsn, point.lsn)
        )

    def _unmade(self, schema: SchemaCopy, before: Progress) -> Progress:
        """Begin again from nothing: rows that were copied are of tables that are others now."""
        begun = replace(before, copies=Copies())
        schema.sink.note_outdated()  # or its rows would be taken for others', if this run ends here
        if self._token is not None:
            self._apply(begun.encode())
        schema.sink.unmake()
        return begun

    def _note_unused_names(self, conn: Connection) -> None:
        """Say which tables are to have another name and are not there: the name may be mistyped."""
        for name in self._renames.tables:
            if not has_relation(conn, *name):
                logger.warning("no such table in the source", sink=self._name, table=".".join(name))

    def _next_ones(self, missing: Sequence[CopiedTable]) -> list[CopiedTable]:
        """The tables to copy at this point: all that are calm, or else one of the others."""
        calm = [table for table in missing if table.relation.relid not in self._restless]
        if calm or not missing:
            return calm
        turns = list(self._restless)
        return [min(missing, key=lambda table: turns.index(table.relation.relid))]

    @contextmanager
    def _noting_rewritten(self, tables: Sequence[CopiedTable]) -> Iterator[None]:
        """Set tables aside that turn out to have been rewritten since the point."""
        try:
            yield
        except Exception as exc:
            if isinstance(error_of_job(exc) or exc, TableRewrittenError):
                with source_errors(self._source.url, "list the tables"), connect(self._source.url) as conn:
                    for relid in rewritten_tables(conn, tables):
                        self._restless.pop(relid, None)
                        self._restless[relid] = None  # the others have their turn first
            raise

    @contextmanager
    def _schema(self, schema: SchemaCopy | None, point: Point, *, are_last: bool) -> Iterator[None]:
        """Around the copy of rows: what they need before it, and what is better made after the last."""
        if schema is None:
            yield
            return
        if self._token is None:
            schema.clean(point.conn)
        schema.make(schema.before, noted=True)
        yield
        if are_last and not self._stopping.is_set():
            schema.make(schema.after, noted=True)
            schema.set_sequences(point.conn)
            schema.fill_views(point.conn)

    def published(self) -> tuple[list[CopiedTable], Lsn]:
        """The tables that the sink should hold as they are now, and where that is."""
        with source_errors(self._source.url, "list the tables"), connect(self._source.url) as conn:
            return self._wanted(self._source.tables(conn)), wal_position(conn)

    def left_out(self, copies: Copies) -> tuple[int, ...]:
        """The tables that a sink holds and that are passed over from now on, as they were before."""
        with source_errors(self._source.url, "list the tables"), connect(self._source.url) as conn:
            published = self._source.tables(conn)
        wanted = {table.relation.relid for table in self._wanted(published)}
        passed_over = {table.relation.relid for table in published} - wanted
        return tuple(sorted(passed_over & copies.tables | {*copies.left}))

    def is_needed(self, copies: Copies | None) -> bool:
        """Whether there are tables that a sink should hold and does not."""
        if copies is None or not copies.finished:
            return True
        return bool(self._missing(self.published()[0], copies))

    def _wanted(self, published: Sequence[CopiedTable]) -> list[CopiedTable]:
        wanted = self._source.wanted
        return [table for table in published if wanted(table.relation.schema, table.relation.name)]

    def _missing(self, published: Sequence[CopiedTable], copies: Copies) -> list[CopiedTable]:
        return [table for table in published if is_missing(table, copies)]

    def _to_empty(self, tables: Sequence[CopiedTable], copies: Copies) -> set[int]:
        """
        Tables whose rows of before have to go: copied in part or before, or another one of that name.

        Of a sink without tables also those of which it has changes: the copy has them, too.
        """
        held = copies.tables | set(copies.begun)
        streamed = copies.finished and not isinstance(self._sink, HoldsTables)
        names = {version.qualified for version in self._store.versions() if streamed or version.relid in held}
        again = {table.relation.relid for table in tables if table.qualified in names}
        back = copies.tables & {table.relation.relid for table in tables}
        return again | back | set(copies.begun)

    def _refuse_emptying(self, tables: Iterable[CopiedTable]) -> None:
        """Rows of others may be among those of an earlier copy: nobody can tell which."""
        if not isinstance(self._sink, SharesTables) or not self._sink.shares_tables:
            return
        for table in tables:
            if self._sink.has_rows(self._renames.table((table.relation.schema, table.relation.name))):
                raise TargetError(
                    f"{table.qualified} has to be copied from its beginning, and in {self._name!r}, with its "
                    "on_conflict, rows of others may be among those that are there",
                    remedy="Empty the target's table by hand, and start again",
                    table=table.qualified,
                )

    def _progress(self, point: Point) -> Progress:
        """What the sink holds, or what it will hold once its first table is copied at this point."""
        if self._token is None:
            server = point.server
            return Progress(server.system_id, server.timeline, point.lsn, Copies(), names=str(self._renames))
        progress = Progress.decode(self._token)
        progress.require_names(str(self._renames), self._name)
        if progress.copies is None:
            progress = replace(progress, copies=Copies())
        if progress.system_id != point.server.system_id:
            raise WrongSystemError(
                f"target {self._name!r} holds tables of system {progress.system_id}, "
                f"the source is {point.server.system_id}",
                remedy="Use another target, or empty this one and copy the data again",
            )
        return progress

    @property
    def _takes_ranges(self) -> bool:
        return getattr(self._sink, "takes_ranges", False) and not self._is_modified

    @property
    def _is_modified(self) -> bool:
        """Whether modifiers may have to see rows."""
        return self._chain.is_needed(injects=takes_identity(self._sink))

    def _apply_all(self, batches: Sequence[CopyBatch], before: Progress, lsn: Lsn) -> bool:
        """Apply the batches, each read while the one before it is written."""
        assert before.copies is not None
        small = sum(part.bytes for batch in batches for part in batch.parts) <= SMALL_BYTES
        steps = [
            CopyStep(
                batch.parts,
                {
                    number: self._renames.version(self._chain.narrowed(version))
                    for number, version in batch.versions.items()
                },
                self._chain.of(batch.versions, injects=takes_identity(self._sink)),
                self._spark,
                self._scratch,
                small=small and not self._is_modified,
            )
            for batch in batches
        ]
        takes_chunks = getattr(self._sink, "takes_chunks", False) and not self._takes_ranges
        with ThreadPoolExecutor(1, thread_name_prefix="copy-ahead") as workers:
            try:
                for number, (batch, step) in enumerate(zip(batches, steps, strict=True)):
                    if self._stopping.is_set():
                        return False
                    if takes_chunks:
                        for ahead in steps[number : number + 2]:
                            ahead.make_ready(workers)
                    self._facts.copying = self._report.facts
                    copies = after(before.copies, lsn, batch)
                    if not self._apply(replace(before, copies=copies).encode(), step):
                        return False
                    self._report.applied(batch, step.rows)
                    self._facts.count_unidentified(step.without_identity())
                    self._facts.batches += 1
            finally:
                for step in steps:
                    step.discard()
        return True

    def _finish(self, before: Progress, lsn: Lsn, relids: Sequence[int]) -> bool:
        """Say in the sink's progress that everything is copied."""
        assert before.copies is not None
        copies = replace(before.copies.with_copied(lsn, relids), begun=(), partly={}, finished=True)
        if not self._apply(replace(before, copies=copies).encode()):
            return False
        self._report.finish()
        rows = sum(table.rows for table in self._report.facts.tables)
        counted = {"rows": rows} if rows else {}  # of a sink that reads frames nobody counts
        logger.info("tables copied", sink=self._name, tables=len(relids), **counted)
        return True

    def _apply(self, end: str, *steps: LogStep) -> bool:
        """Apply a batch; a target that is away is waited for while the snapshot is held."""
        batch = LogBatch(self._token, end, steps)
        if not with_patience(
            lambda: self._sink.apply(batch), self._stopping, self._note_retry, only=TargetError
        ):
            return False
        self._facts.go_on()
        self._token = end
        return True

    def _note_retry(self, exc: Exception) -> None:
        self._facts.try_again(exc)
        logger.warning("batch could not be copied, trying again", sink=self._name, reason=str(exc))


def is_missing(table: CopiedTable, copies: Copies) -> bool:
    """Whether a sink does not hold a table, or not since it came back into the stream."""
    relid = table.relation.relid
    point = copies.point_of(relid)
    return point is None or relid in copies.left or (table.joined is not None and point < table.joined)
