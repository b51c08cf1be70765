"""
Copied tables by the shortest way: what the source's COPY gives is what the target's COPY reads.

In the binary format where every column has the same built-in type on both sides, else as text.

Ranges go at the same time, in tasks, each in a transaction of its own with a mark that says so. A task that
runs twice finds the mark of its first run, or waits for it. The marks go with the progress of the batch, and
a task that comes later finds that this has moved on; those of a copy that was broken off tell which tables
hold rows of it, and these are emptied before they are copied again.
"""

# ruff: noqa: S608 - the tables of ours that are named in statements are constants

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg

from pgsluice.errors import TargetFencedError, TargetUnavailableError
from pgsluice.observability.failpoints import failpoint
from pgsluice.postgres.copy_in import copy_in
from pgsluice.sinks.postgres.beside import require_empty
from pgsluice.sinks.postgres.connection import address, open_target, stand_aside
from pgsluice.sinks.postgres.failures import translated
from pgsluice.sinks.postgres.names import copy_into
from pgsluice.sinks.postgres.progress import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgsluice.postgres.session import Connection
    from pgsluice.sinks.base import RawRange
    from pgsluice.sinks.postgres.config import PostgresConfig
    from pgsluice.sinks.postgres.progress import ProgressRow
    from pgsluice.sinks.postgres.target import TargetTable

MARKS: Final = "pgsluice.copied_range"


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Copies one range. Plain data, which is sent to a task."""

    config: PostgresConfig
    pipeline: str
    epoch: int
    token: str | None  # which the progress has until the batch of the range is finished
    tables: Mapping[int, TargetTable]  # by version

    def __call__(self, part: RawRange) -> int:
        """Copy, unless it was copied; gives the rows in both cases."""
        table = self.tables[part.relation]
        try:
            with open_target(self.config) as conn:
                aside = stand_aside(conn)
                with conn.transaction():
                    # Not on disk yet when it ends; the progress that comes after it will be, or neither.
                    conn.execute("SET LOCAL synchronous_commit = off")
                    if not aside:
                        conn.execute("SET CONSTRAINTS ALL DEFERRED")
                    copied = self._mark(conn, part, table)
                    rows = self._copy(conn, part, table) if copied is None else copied
                    failpoint("task.before_commit")
        except psycopg.Error as error:
            raise translated(error, address(self.config), table.version) from error
        failpoint("task.after_write")
        return rows

    def _mark(self, conn: Connection, part: RawRange, table: TargetTable) -> int | None:
        """
        Mark the range as copied; if it is, its rows.

        A newer run waits until this transaction is over, and so does the end of the batch.
        """
        kept = conn.execute(
            f"SELECT token FROM {PROGRESS} WHERE pipeline = %s AND epoch = %s FOR SHARE",
            (self.pipeline, self.epoch),
        ).fetchone()
        if kept is None:
            raise TargetFencedError(f"another run of the pipeline {self.pipeline} has begun to copy")
        if kept[0] != self.token:
            return 0  # the batch is finished: Spark had given this attempt up
        marked = conn.execute(
            f"INSERT INTO {MARKS} (pipeline, range, relation) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (self.pipeline, part.name, table.version.qualified),
        )
        if marked.rowcount == 1:
            return None
        where = (self.pipeline, part.name)
        row = conn.execute(f"SELECT rows FROM {MARKS} WHERE pipeline = %s AND range = %s", where).fetchone()
        assert row is not None, "marks go with the batch, whose end waits for us"
        return int(row[0])

    def _copy(self, conn: Connection, part: RawRange, table: TargetTable) -> int:
        binary = table.takes_binary
        names = [column.identifier for column in table.columns]
        with copy_in(conn, copy_into(conn, table.name, names, binary=binary)) as copy:
            for piece in part.pieces([column.index for column in table.columns], binary=binary):
                copy.write(piece)
        conn.execute(
            f"UPDATE {MARKS} SET rows = %s WHERE pipeline = %s AND range = %s",
            (copy.rows, self.pipeline, part.name),
        )
        return copy.rows


def make_room(
    conn: Connection, progress: ProgressRow, ranges: Sequence[RawRange], tables: Mapping[int, TargetTable]
) -> None:
    """Empty the tables whose copy begins here, where rows of a copy that was broken off are left."""
    conn.execute(
        f"CREATE TABLE IF NOT EXISTS {MARKS} (pipeline text, range text, relation text NOT NULL, "
        "rows bigint NOT NULL DEFAULT 0, PRIMARY KEY (pipeline, range))"
    )
    for part in ranges:
        if part.begins:
            of_this_copy = [other.name for other in ranges if other.relation == part.relation]
            _make_room_for(conn, progress, part, tables[part.relation], of_this_copy)


def _make_room_for(
    conn: Connection, progress: ProgressRow, part: RawRange, table: TargetTable, of_this_copy: list[str]
) -> None:
    where = "pipeline = %s AND relation = %s AND range = ANY (%s)"
    about = (progress.pipeline, table.version.qualified, of_this_copy)
    if conn.execute(f"SELECT FROM {MARKS} WHERE {where} LIMIT 1", about).rowcount:
        return  # this very batch, tried again
    left = conn.execute(f"DELETE FROM {MARKS} WHERE pipeline = %s AND relation = %s", about[:2]).rowcount
    if part.empties or left:
        conn.execute(table.emptying, ())
    else:
        require_empty(conn, table)


def forget_all_marks(conn: Connection, progress: ProgressRow) -> None:
    """Remove what copies have left that were broken off and gone on with in another way."""
    if has_marks(conn, progress):
        conn.execute(f"DELETE FROM {MARKS} WHERE pipeline = %s", (progress.pipeline,))


def has_marks(conn: Connection, progress: ProgressRow) -> bool:
    """Whether ranges were copied in batches that are not finished."""
    if not conn.execute("SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass(%s)", (MARKS,)).rowcount:
        return False
    where = (progress.pipeline,)
    return bool(conn.execute(f"SELECT FROM {MARKS} WHERE pipeline = %s LIMIT 1", where).rowcount)


def forget_marks(
    conn: Connection, progress: ProgressRow, ranges: Sequence[RawRange], tables: Mapping[int, TargetTable]
) -> None:
    """Remove the marks of a batch whose progress is kept; raise if one is not there, for its rows are not."""
    names = [table.version.qualified for table in tables.values()]
    found = conn.execute(
        f"DELETE FROM {MARKS} WHERE pipeline = %s AND relation = ANY (%s) RETURNING range",
        (progress.pipeline, names),
    ).fetchall()
    lost = {part.name for part in ranges} - {name for (name,) in found}
    if lost:
        raise TargetUnavailableError(f"the target has lost {len(lost)} copied ranges in a crash")
