"""
The way of a batch into a PostgreSQL database: one transaction with its rows and its progress.

Chunks are gathered per table up to a bound, folded, and merged; a source transaction larger than that is
several folds in the one transaction of the target. Triggers and foreign keys of the target are switched
off for the session, since what they did on the source is in the stream; where that is not allowed, triggers
are refused and foreign keys satisfied (``obstacles``, ``together``).

Unit of parallelism: one writer, the driver, fed by tasks that decode. Guarantee: exactly once.
On replay: progress is in the same transaction, so what was applied does not come again; a batch whose
reply was lost is recognised by its token.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import psycopg
import structlog
from psycopg import sql
from pydantic import SecretStr

from pgsluice.errors import TargetError
from pgsluice.observability.failpoints import failpoint
from pgsluice.postgres.session import database_identity, has_relation
from pgsluice.sinks.base import SchemaOptions
from pgsluice.sinks.fold import fold, gathered
from pgsluice.sinks.postgres.beside import Placed, drop_beside, make_beside, note_shape, swap
from pgsluice.sinks.postgres.change_schema import SchemaChanges
from pgsluice.sinks.postgres.clean import clean
from pgsluice.sinks.postgres.config import PostgresConfig
from pgsluice.sinks.postgres.connection import address, open_target, stand_aside
from pgsluice.sinks.postgres.direct import CopyTask, forget_all_marks, forget_marks, has_marks, make_room
from pgsluice.sinks.postgres.failures import translated
from pgsluice.sinks.postgres.held import PostgresComparison
from pgsluice.sinks.postgres.made import forget_notes, is_outdated, note_outdated, unmake
from pgsluice.sinks.postgres.merge import Merge
from pgsluice.sinks.postgres.names import identifier
from pgsluice.sinks.postgres.obstacles import tied_tables
from pgsluice.sinks.postgres.progress import ProgressRow
from pgsluice.sinks.postgres.proof import Proof
from pgsluice.sinks.postgres.schema import fill_views, make_objects, set_sequences
from pgsluice.sinks.postgres.staging import Staging
from pgsluice.sinks.postgres.target import Tables
from pgsluice.sinks.postgres.together import OneStatement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.statements import NamedObject, SchemaStatement
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Batch, Comparison, DataStep, SinkContext, Swap
    from pgsluice.sinks.base import SchemaChanges as WhatToDo
    from pgsluice.sinks.postgres.config import OnConflict
    from pgsluice.sinks.postgres.target import TargetTable

logger = structlog.get_logger(__name__)


_PIECE_BYTES: Final = 16 << 20  # where the order of tables is free; less waits for the end of a transaction
_REPLACE: Final[Mapping[OnConflict, bool | None]] = {"error": None, "update": True, "nothing": False}
"""Whether a row that comes replaces one of its key; None: copied rows do, for a copy may be done again."""


class PostgresSink:
    """
    Writes tables to another PostgreSQL database. See the module's text for what it promises.

    Args:
        target: how to connect to it, or all options.
    """

    takes_chunks = True
    takes_arriving = True

    def __init__(self, target: PostgresConfig | str) -> None:
        self._config = target if isinstance(target, PostgresConfig) else PostgresConfig(url=SecretStr(target))
        self._conn: Connection | None = None
        self._aside = True  # whether triggers and foreign keys of the target are off
        self._makes_tables = True  # else its tables were made for it
        self._tables: Tables
        self._merge: Merge
        self._proof: Proof  # of one batch
        self._progress: ProgressRow
        self._writing: TableVersion | None = None  # for messages
        self._held: Collection[int] = ()  # tables that must be there, by the last batch

    def open(self, context: SinkContext) -> str | None:
        """Connect, and take the pipeline's progress over."""
        self.close()
        self._progress = ProgressRow(context.pipeline)
        try:
            with self._transaction() as conn:
                return self._progress.take_over(conn)
        except BaseException:
            self.close()
            raise

    def apply(self, batch: Batch) -> None:
        """Write a batch and its progress in one transaction; ranges of tables in their own before it."""
        self._held = batch.held if self._config.makes("table") else ()
        copied = [step for step in batch.steps if self.takes_ranges and step.ranges]
        if copied and not self._copy(batch, copied):
            return
        with self._transaction() as conn:
            if self._progress.holds(batch, conn):
                return
            self._proof = Proof()
            changes = SchemaChanges(conn, self._config, aside=self._aside)
            for step in batch.steps:
                if step.entry is not None:
                    changes.make(step.entry)
                    self._tables.forget()
                elif step in copied:
                    for table in self._ready(step).values():
                        self._proof.note(table, None)
                    forget_marks(conn, self._progress, step.ranges, self._ready(step))
                else:
                    self._write_all(step.chunks(), step.tables)
            if not batch.steps:  # between copies and changes, or at rest: no range is under way
                forget_all_marks(conn, self._progress)
            if batch.swaps:
                self._swap(conn, batch.swaps)
            self._proof.require(conn, Staging(conn))
            self._progress.move(batch, conn)
            failpoint("sink.before_commit")
        failpoint("sink.after_commit")

    def _swap(self, conn: Connection, swaps: Sequence[Swap]) -> None:
        placed = [
            Placed(
                self._tables.ready(each.table),
                self._tables.ready(each.beside),
                self._config.on_conflict if each.adds else None,
            )
            for each in swaps
        ]
        swap(conn, placed)
        for each in placed:
            self._proof.note(each.table, None)
        for pipeline in {each.pipeline for each in swaps}:
            ProgressRow(pipeline).remove(conn)
        self._tables.forget()
        failpoint("sink.swapped")

    def _copy(self, batch: Batch, steps: Sequence[DataStep]) -> bool:
        """Copy ranges of tables as they are; False if the batch is there already."""
        with self._transaction() as conn:
            if self._progress.holds(batch, conn):
                return False
            for step in steps:
                make_room(conn, self._progress, step.ranges, self._ready(step))
        for step in steps:
            task = CopyTask(
                self._config, self._progress.pipeline, self._progress.epoch, batch.start, self._ready(step)
            )
            rows = step.each_range(task)
            logger.info("ranges copied", ranges=len(rows), rows=sum(rows))
        return True

    def _ready(self, step: DataStep) -> dict[int, TargetTable]:
        return {number: self._tables.ready(version) for number, version in step.tables.items()}

    def _write_all(self, chunks: Iterable[pa.Table], tables: Mapping[int, TableVersion]) -> None:
        most = min(self._config.fold_bytes, _PIECE_BYTES) if self._aside else self._config.fold_bytes
        for runs in gathered(chunks, tables, most, one_version=not self._aside):
            self._write(runs)

    @contextmanager
    def trial(self) -> Iterator[PostgresSink]:
        """Try rows in a transaction that is rolled back; see :meth:`take`."""
        with self._transaction():
            yield self
            self._tables.forget()
            raise psycopg.Rollback

    def take(self, rows: pa.Table, tables: Mapping[int, TableVersion]) -> TargetError | None:
        """Put rows on top of those that the trial has taken, or say why the target refuses them."""
        assert self._conn is not None, "inside of a trial"
        try:
            with self._conn.transaction():
                self._proof = Proof()
                self._write_all([rows], tables)
                self._proof.require(self._conn, Staging(self._conn))
        except psycopg.Error as error:
            refused = translated(error, address(self._config), self._writing)
            if not refused.caused_by_row:
                raise
        except TargetError as error:
            refused = error
            if not refused.caused_by_row:
                raise
        else:
            return None
        self._writing = None
        self._tables.forget()
        return refused

    compares_as_source = True

    @contextmanager
    def comparing(self) -> Iterator[Comparison]:
        """Look at the target over a connection of its own."""
        try:
            with open_target(self._config) as conn:
                yield PostgresComparison(conn)
        except psycopg.Error as error:
            raise translated(error, address(self._config), None) from error

    @property
    def takes_ranges(self) -> bool:
        """Whether copied tables go from COPY to COPY, which knows no conflict but an error."""
        return self._config.on_conflict == "error"

    @property
    def schema_changes(self) -> WhatToDo:
        """Whether the target's schema follows the source's."""
        return self._config.used_schema_changes

    @property
    def schema_options(self) -> SchemaOptions | None:
        """How the source's schema is wanted; None when it is left to others."""
        if self._config.schema_copy == "leave":
            return None
        config = self._config
        return SchemaOptions(
            config.owners or config.roles, config.privileges or config.roles, config.roles, config.clean
        )

    def clean(self, objects: Sequence[NamedObject]) -> None:
        """Drop these objects, once."""
        with self._transaction() as conn:
            clean(conn, self._progress.pipeline, objects)
            self._tables.forget()

    def make_objects(self, statements: Sequence[SchemaStatement], *, noted: bool = False) -> None:
        """Make what is not there yet."""
        with self._translating():
            conn = self._conn or self._connect()
            note_for = self._progress.pipeline if noted else None
            make_objects(conn, statements, note_for=note_for, aside=self._aside)
            self._tables.forget()

    def lacks(self, tables: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of some tables that are not there and that changes of the schema may make."""
        if not self._config.makes("table"):
            return []
        with self._transaction() as conn:
            return [table for table in tables if not has_relation(conn, *table)]

    def is_outdated(self, statements: Sequence[SchemaStatement]) -> bool:
        """Whether the source has changed something since an unfinished copy has made it."""
        with self._transaction() as conn:
            return is_outdated(conn, self._progress.pipeline, statements)

    def note_outdated(self) -> None:
        """What an unfinished copy has made is to go, also when this run does not come to it."""
        with self._transaction() as conn:
            note_outdated(conn, self._progress.pipeline)

    def unmake(self) -> None:
        """Drop what an unfinished copy has made."""
        with self._transaction() as conn:
            unmake(conn, self._progress.pipeline)
            self._tables.forget()

    def finish_making(self) -> None:
        """What the first copy has made stays."""
        with self._transaction() as conn:
            forget_notes(conn, self._progress.pipeline)

    def set_sequences(self, values: Mapping[tuple[str, str], int]) -> None:
        """Bring sequences to these values."""
        with self._translating():
            set_sequences(self._conn or self._connect(), values)

    def fill_views(self, names: Sequence[tuple[str, str]], *, again: bool = False) -> None:
        """Fill materialized views that have never been filled, or all of them ``again``."""
        with self._translating():
            fill_views(self._conn or self._connect(), names, again=again)

    def database(self) -> tuple[str, str] | None:
        """What tells the target from every other database; None when its role may not know."""
        with self._translating(), open_target(self._config) as conn:
            return database_identity(conn)

    def twin(self) -> PostgresSink:
        """Another one for the same database; its tables are made before it comes."""
        twin = PostgresSink(
            self._config.model_copy(update={"schema_copy": "leave", "schema_changes": "ignore"})
        )
        twin._makes_tables = False
        return twin

    def holds(self, table: TableVersion) -> bool:
        """Whether the target has a table of that name, as it was made beside another one for this version."""
        with self._transaction():
            return self._tables.holds(table)

    @property
    def has_unfinished_ranges(self) -> bool:
        """Whether a copy by ranges was broken off, whose rows only such a copy can tell from others."""
        with self._transaction() as conn:
            return has_marks(conn, self._progress)

    def make_beside(self, table: TableVersion, beside: TableVersion) -> None:
        """Make an empty table like another one."""
        with self._transaction() as conn:
            if self.schema_changes == "apply":  # the table's own columns may still be those of before
                drop_beside(conn, beside)
                self._tables.forget()
                self._tables.ready(beside)
            else:
                make_beside(conn, self._tables.ready(table), beside)
            note_shape(conn, beside)

    def drop_beside(self, beside: TableVersion) -> None:
        """Remove such a table."""
        with self._transaction() as conn:
            drop_beside(conn, beside)
            self._tables.forget()

    @property
    def shares_tables(self) -> bool:
        """Whether rows of others may be in the tables, which are to be left there."""
        return self._config.on_conflict != "error"

    def has_rows(self, table: tuple[str, str]) -> bool:
        """Whether a table of the target is there and not empty; by schema and name."""
        with self._transaction() as conn:
            if not has_relation(conn, *table):
                return False
            first = sql.SQL("SELECT FROM {} LIMIT 1").format(identifier(*table))
            return bool(conn.execute(first, ()).rowcount)

    def tied_to(self, tables: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those that foreign keys tie to these, where such keys can't be switched off."""
        with self._transaction() as conn:
            return set() if self._aside else tied_tables(conn, tables)

    def forget(self, pipeline: str) -> None:
        """Remove the progress of another pipeline."""
        with self._transaction() as conn:
            ProgressRow(pipeline).remove(conn)

    def close(self) -> None:
        """Hang up."""
        conn, self._conn = self._conn, None
        if conn is not None:
            with suppress(psycopg.Error):
                conn.close()

    def _write(self, runs: Sequence[tuple[TableVersion, pa.Table]]) -> None:
        checked = []
        for version, rows in runs:
            self._writing = version
            table = self._tables.ready(version, held=version.relid in self._held)
            folded = fold(rows, version, replace=_REPLACE[self._config.on_conflict])
            if table.checked:
                checked.append((table, folded))
            else:
                self._merge.apply(table, folded)
                self._proof.note(table, folded)
            self._writing = None
        if checked:
            assert self._conn is not None
            leaves_conflicts = self._config.on_conflict == "nothing"
            OneStatement(Staging(self._conn), leaves_conflicts=leaves_conflicts).run(self._conn, checked)

    def _connect(self) -> Connection:
        conn = open_target(self._config)
        self._aside = stand_aside(conn)
        follows = self.schema_changes == "apply"
        self._tables = Tables(conn, aside=self._aside, follows=follows, makes=self._makes_tables)
        self._merge = Merge(conn, self._config.on_conflict)
        self._conn = conn
        return conn

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """All or nothing; after an error the sink is ready for another try."""
        self._writing = None
        try:
            with self._translating():
                conn = self._conn or self._connect()
                with conn.transaction():
                    if not self._aside:
                        conn.execute("SET CONSTRAINTS ALL DEFERRED")
                    yield conn
        except BaseException:
            if self._conn is not None:
                self._tables.forget()
            raise

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            self.close()  # whatever state it was in; the next try connects again
            raise translated(error, address(self._config), self._writing) from error
