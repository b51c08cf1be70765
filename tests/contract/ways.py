"""
The ways in which rows get to a sink.

Each is a function that makes a batch of one step from envelope rows; the suite runs through all of them.
"""

from __future__ import annotations

import datetime as dt
import itertools
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from pyspark.sql import SparkSession

from pgsluice.changelog.log import LogWriter
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.scan import HEADER, Scanner
from pgsluice.changelog.segment import LogMeta
from pgsluice.modifiers.chain import Modification
from pgsluice.pipeline.batch import LogBatch, LogStep
from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput.decode import RelationAt
from pgsluice.source.pgoutput.relation import parse_relation
from pgsluice.source.relations import DecodableRange
from pgsluice.testing.batches import LocalBatch, LocalStep
from pgsluice.testing.pgoutput import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from pgsluice.changelog.plan import LogRange
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Batch


_PG_EPOCH: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


class Way(Protocol):
    """Makes a batch of one step."""

    def __call__(
        self,
        rows: pa.Table,
        tables: Mapping[int, TableVersion],
        *,
        start: str | None,
        end: str,
        chunk_rows: int,
    ) -> Batch:
        """A batch with these rows; ``chunk_rows`` is how many come at a time, where the way allows it."""
        ...


def short(
    rows: pa.Table, tables: Mapping[int, TableVersion], *, start: str | None, end: str, chunk_rows: int
) -> Batch:
    """The rows are on the driver already."""
    return LocalBatch(start, end, [LocalStep(tables, rows, chunk_rows)])


def executors(
    rows: pa.Table, tables: Mapping[int, TableVersion], *, start: str | None, end: str, chunk_rows: int
) -> Batch:
    """The rows are written to a real log, which Spark tasks decode, a range per transaction."""
    directory = Path(tempfile.mkdtemp(prefix="pgsluice-way-"))
    write_log(directory, rows, tables)
    parts = decodable_ranges(directory, tables)
    step = LogStep(parts, tables, Modification(), SparkSession.builder.getOrCreate, directory, small=False)
    return LogBatch(start, end, [step])


def write_log(directory: Path, rows: pa.Table, tables: Mapping[int, TableVersion]) -> None:
    """A log with these rows."""
    scanner = Scanner(1 << 16)
    writer = LogWriter(directory, LogMeta("1", 1, "slot", "publication", "0/1"))
    scanner.reset(writer.offset)
    for message in _messages(rows.to_pylist(), tables):
        body = b"w" + bytes(24) + encode(message)
        wire = b"d" + struct.pack(">I", len(body) + 4) + body
        writer.append(scanner.scan(np.frombuffer(wire, np.uint8), len(wire)), scanner)
    writer.sync()
    writer.close()


def decodable_ranges(directory: Path, tables: Mapping[int, TableVersion]) -> Sequence[DecodableRange]:
    """The ranges of a log, ready to be decoded."""
    piece = LogReader(directory).next(Lsn(1), 1 << 40, range_bytes=1)
    return [_decodable(part, tables) for part in piece.ranges] if piece else []


def _decodable(part: LogRange, tables: Mapping[int, TableVersion]) -> DecodableRange:
    by_relid = {table.relid: table for table in tables.values()}
    data = Path(part.path).read_bytes()
    found = []
    for offset in part.relations:
        (length,) = struct.unpack_from("<I", data, offset)
        table = by_relid[parse_relation(data[offset + HEADER : offset + HEADER + length]).relid]
        found.append(RelationAt(offset, table.relid, table.id, table.schema, table.name, len(table.columns)))
    return DecodableRange(part, tuple(found))


def _messages(rows: list[dict[str, Any]], tables: Mapping[int, TableVersion]) -> Iterator[m.Message]:
    """What pgoutput would have sent for these rows."""
    for _, group in itertools.groupby(rows, key=lambda row: row["commit_lsn"]):
        changes = list(group)
        head = changes[0]
        stamp = int((head["commit_ts"] - _PG_EPOCH).total_seconds() * 1_000_000)
        yield m.Begin(commit_lsn=head["commit_lsn"], commit_ts=stamp, xid=head["xid"])
        for table in tables.values():
            yield _relation(table)
        for _, same in itertools.groupby(changes, key=lambda row: row["seq"]):
            yield _message(list(same), tables)
        yield m.Commit(commit_lsn=head["commit_lsn"], end_lsn=head["end_lsn"], commit_ts=stamp)


def _relation(table: TableVersion) -> m.Relation:
    columns = tuple(
        m.RelationColumn(column.name, column.type.oid, column.type.typmod, column.in_identity)
        for column in table.columns
    )
    return m.Relation(table.relid, table.schema, table.name, table.identity, columns)


def _message(rows: list[dict[str, Any]], tables: Mapping[int, TableVersion]) -> m.Message:
    row = rows[0]
    if row["op"] == "T":
        relids = tuple(tables[each["relation"]].relid for each in rows)
        return m.Truncate(relids=relids, cascade=False, restart_identity=False)
    if row["op"] == "M":
        content = (row["content"] or "").encode()
        return m.LogicalMessage(True, row["commit_lsn"], row["prefix"], content)
    table = tables[row["relation"]]
    old = tuple(row["old"]) if row["old"] is not None else None
    kind = "O" if table.identity == "f" else "K"
    if row["op"] == "D":
        assert old is not None
        return m.Delete(relid=table.relid, old_kind=kind, old=old)
    unchanged = set(row["unchanged"] or ())
    new = tuple(m.UNCHANGED if i in unchanged else value for i, value in enumerate(row["values"]))
    if row["op"] == "I":
        return m.Insert(relid=table.relid, new=new)
    assert row["op"] == "U", "the log has no snapshot rows"
    return m.Update(relid=table.relid, old_kind=kind if old is not None else None, old=old, new=new)


WAYS: dict[str, Way] = {"short": short, "executors": executors}

NEED_SPARK: frozenset[str] = frozenset({"executors"})
"""Ways that need the Spark session whatever the sink."""

CUTS_CHUNKS: frozenset[str] = frozenset({"short"})
"""Ways that heed ``chunk_rows``; on others every number would be the same test."""
