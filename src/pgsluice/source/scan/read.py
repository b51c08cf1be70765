"""
The work of one task: pages of a table, and the typed rows that they become.

A task takes its parts one after the other over one connection, each in a transaction of its own, so that it
never holds locks on two tables. Its memory is that of one piece of lines (4 MiB, or one larger row).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql
from pyspark.sql.datasource import InputPartition

from pgsluice.errors import TableChangedError, TableRewrittenError, UntypedValueError
from pgsluice.source.scan.table import as_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from pgsluice.postgres.session import Connection
    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.source.scan.held import HeldSnapshot
    from pgsluice.source.scan.layout import ReadColumn

_LOCK_TIMEOUT: Final = "30s"
_NO_ROWS: Final = sql.SQL("SELECT {} FROM {} LIMIT 0")
_SEQ_OF_PART: Final = 1 << 32  # numbers that each part has for its rows


@dataclass(frozen=True, slots=True)
class Pages:
    """Neighbouring pages of one heap, or a whole table with all of its partitions."""

    number: int  # of all parts of a read
    relid: int
    schema: str
    name: str
    columns: tuple[int, ...]  # numbers of the columns in this heap
    filenode: int | None = None  # as the snapshot sees it; None: the table's rows of now, wherever they are
    first_page: int = 0
    end_page: int | None = None  # None: to the end, whatever was added since the size was read
    only: bool = True  # without what inherits from it

    @property
    def table(self) -> sql.Composable:
        """For statements."""
        name = sql.Identifier(self.schema, self.name)
        return sql.SQL("ONLY {}").format(name) if self.only else name

    @property
    def qualified(self) -> str:
        """``schema.name``, for people."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class TablePartition(InputPartition):
    """What a task reads: plain data."""

    url: str = field(repr=False)
    held: HeldSnapshot | None
    columns: tuple[ReadColumn, ...]
    schema: pa.Schema  # of the batches
    special: SpecialValues
    where: str | None  # which rows: a condition in SQL
    parts: tuple[Pages, ...]

    @property
    def binary(self) -> bool:
        """Whether COPY's binary format serves for all columns."""
        return all(column.form is not None for column in self.columns)


def rows(partition: TablePartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, some MiB at a time; runs in a task."""
    from pgsluice.postgres.session import lift_limits
    from pgsluice.source.connect import connect, source_errors
    from pgsluice.source.snapshot.copy_out import lines_of
    from pgsluice.source.tasks import keep_modules

    with (
        source_errors(partition.url, f"read {partition.parts[0].qualified}"),
        connect(partition.url, application_name="pgsluice read") as conn,
    ):
        lift_limits(conn)
        conn.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        for part in partition.parts:
            with _transaction(conn, partition.held):
                _lock(conn, part, partition)
                first = part.number * _SEQ_OF_PART + 1
                for piece in lines_of(conn, _copy(part, partition)):
                    batch = _batch(piece, partition, part, first)
                    first += batch.num_rows
                    keep_modules()
                    yield batch


@contextmanager
def _transaction(conn: Connection, held: HeldSnapshot | None) -> Iterator[None]:
    from pgsluice.source.scan.held import enter_held

    if held is None:
        conn.execute("BEGIN READ ONLY")
    else:
        enter_held(conn, held)
    yield
    conn.execute("COMMIT")


def _lock(conn: Connection, part: Pages, partition: TablePartition) -> None:
    """
    Lock the table as every statement does that reads it: until the transaction ends nobody rewrites it.

    Whether somebody has done so already is compared: by the file that the rows are in, and by what the server
    takes the names of the columns for. The catalog's tables would say what the snapshot sees of them.
    """
    try:
        answer = conn.execute(_NO_ROWS.format(_names(partition), part.table)).pgresult
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as exc:
        raise _gone(part) from exc
    except psycopg.errors.UndefinedColumn as exc:
        raise _changed(part) from exc
    assert answer is not None
    if part.filenode is not None:
        _require_same_file(conn, part)
    found = [(answer.ftable(i), answer.ftablecol(i), answer.ftype(i)) for i in range(answer.nfields)]
    wanted = [
        (part.relid, number, column.type_oid)
        for number, column in zip(part.columns, partition.columns, strict=True)
    ]
    if found != wanted:
        raise _changed(part)


def _require_same_file(conn: Connection, part: Pages) -> None:
    row = conn.execute("SELECT pg_catalog.pg_relation_filenode(%s::pg_catalog.oid)", (part.relid,)).fetchone()
    if row is None or row[0] != part.filenode:
        raise TableRewrittenError(
            f"{part.qualified} was rewritten after the snapshot, which no longer sees its rows",
            remedy="Take a new snapshot and read again",
            table=part.qualified,
        )


def _gone(part: Pages) -> TableRewrittenError:
    return TableRewrittenError(
        f"{part.qualified} was dropped or renamed after the read was planned",
        remedy="Load the table again",
        table=part.qualified,
    )


def _changed(part: Pages) -> TableChangedError:
    return TableChangedError(
        f"the columns of {part.qualified} were changed after the read was planned",
        remedy="Load the table again, in a new snapshot if it was read in one",
        table=part.qualified,
    )


def _copy(part: Pages, partition: TablePartition) -> sql.Composed:
    conditions: list[sql.Composable] = []
    if part.first_page:
        conditions.append(sql.SQL("ctid >= {}").format(sql.Literal(f"({part.first_page},0)")))
    if part.end_page is not None:
        conditions.append(sql.SQL("ctid < {}").format(sql.Literal(f"({part.end_page},0)")))
    if partition.where is not None:
        conditions.append(as_condition(partition.where))
    where = sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")
    form = sql.SQL(" (FORMAT binary)" if partition.binary else "")
    return sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT{}").format(
        _names(partition), part.table, where, form
    )


def _names(partition: TablePartition) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in partition.columns)


def _batch(
    piece: npt.NDArray[np.uint8], partition: TablePartition, part: Pages, first: int
) -> pa.RecordBatch:
    import pyarrow as pa

    from pgsluice.schema.typed.arrow_rows import untyped_texts
    from pgsluice.source.scan.binary import BinaryRows
    from pgsluice.source.scan.kernel import Cells
    from pgsluice.source.scan.layout import UNTYPED

    rows = (BinaryRows if partition.binary else Cells)(piece, len(partition.columns))
    count = rows.rows
    typed, marks = {}, []
    for number, column in enumerate(partition.columns):
        with _named(part, column):
            typed[column.name], misfits, texts = rows.typed(number, column, partition.special)
        if misfits is not None:
            marks.append((column.name, texts, misfits))
    arrays = []
    for name in partition.schema.names:
        if name == UNTYPED and name not in typed:
            typed[name] = untyped_texts(marks, count)
        arrays.append(typed[name] if name in typed else _about(name, partition, first, count))
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(count)], ["row"]).select([])  # rows without columns
    return pa.RecordBatch.from_arrays(arrays, schema=partition.schema)


@contextmanager
def _named(part: Pages, column: ReadColumn) -> Iterator[None]:
    """Say which column has a value that can't be typed."""
    try:
        yield
    except UntypedValueError as error:
        raise UntypedValueError(
            f"{part.qualified}.{column.name} has {error.message}",
            remedy=error.remedy,
            table=part.qualified,
            column=column.name,
        ) from error


def _about(name: str, partition: TablePartition, first: int, count: int) -> pa.Array:
    """What a stream says of its rows, for rows that no change brought."""
    import numpy as np
    import pyarrow as pa

    from pgsluice.changelog.envelope import SNAPSHOT

    kind = partition.schema.field(name).type
    if name == "_seq":
        return pa.array(np.arange(first, first + count), kind)
    held = partition.held
    same: dict[str, Any] = {"_op": SNAPSHOT, "_unchanged": []}
    if held is not None:
        same |= {"_lsn": int(held.lsn), "_ts": held.taken_at}
    if name in same:
        return pa.repeat(pa.scalar(same[name], kind), count)
    return pa.nulls(count, kind)
