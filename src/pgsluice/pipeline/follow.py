"""
Following a log for a person's eyes: entries or protocol messages, as lines.

Not the way of the data: a line per row is made in Python as soon as a row is durable; without Spark, unless
the pipeline has modifiers, which people's eyes are not spared.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.changelog.envelope import DELETE, INSERT, MESSAGE, SNAPSHOT, TRUNCATE, UPDATE
from pgsluice.changelog.plan import LogRange, LogSlice
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.scan import HEADER
from pgsluice.modifiers.chain import Chain
from pgsluice.schema.store import SchemaStore
from pgsluice.source.pgoutput.plain import decode_message
from pgsluice.source.relations import Relations
from pgsluice.source.tasks import decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgsluice.schema.table import TableVersion

_SLICE_BYTES: Final = 4 << 20
_WORDS: Final = {
    INSERT: "INSERT",
    UPDATE: "UPDATE",
    DELETE: "DELETE",
    TRUNCATE: "TRUNCATE",
    MESSAGE: "MESSAGE",
    SNAPSHOT: "SNAPSHOT",
}

Render = Callable[[LogSlice], Iterator[str]]
"""Makes lines of some transactions."""


def follow(log: Path, start: Lsn | None, render: Render, *, going: Callable[[], bool]) -> Iterator[str]:
    """Lines from ``start``, or from now on, until ``going`` says no."""
    reader = LogReader(log)
    position = reader.end if start is None else start
    while going():
        slice_ = reader.next(position, _SLICE_BYTES)
        if slice_ is None:
            reader.wait(0.2)
            continue
        yield from render(slice_)
        position = slice_.end


class Entries:
    """Renders entries, one line each, for people or as JSON."""

    def __init__(
        self,
        *,
        as_json: bool,
        wanted: Callable[[str, str], bool] | None = None,
        chain: Chain | None = None,
        spark: Callable[[], SparkSession] | None = None,
    ) -> None:
        self._relations = Relations(
            SchemaStore(Path(":memory:")),
            wanted=(lambda version: wanted(version.schema, version.name)) if wanted else None,
        )
        # Lines have no identity, and a log alone does not say which tables have one.
        self._chain = (chain or Chain()).without_injector()
        self._spark = spark
        self._line = _json_line if as_json else _plain_line

    def __call__(self, slice_: LogSlice) -> Iterator[str]:
        """The lines of some transactions."""
        parts, tables = self._relations.resolve(slice_.ranges)
        modification = self._chain.of(tables)
        shown = {number: self._chain.narrowed(version) for number, version in tables.items()}
        for part in parts:
            rows: pa.Table | pa.RecordBatch = decode(part)
            if modification:
                assert self._spark is not None
                rows = modification.apply_local(pa.Table.from_batches([rows]), self._spark)
            for row in rows.to_pylist():
                yield self._line(row, shown.get(row["relation"]))


def messages(slice_: LogSlice) -> Iterator[str]:
    """The protocol's own messages, decoded; nothing is left out and nothing modified."""
    for range_ in slice_.ranges:
        for lsn, message in _frames(range_):
            yield f"{Lsn(lsn)}  {decode_message(message)}"


def _frames(range_: LogRange) -> Iterator[tuple[int, bytes]]:
    with open(range_.path, "rb") as file:  # noqa: PTH123 - ranges carry strings for the workers' sake
        file.seek(range_.start)
        data = file.read(range_.end - range_.start)
    at = 0
    while at < len(data):
        length, lsn = struct.unpack_from("<IQ", data, at)
        yield lsn, data[at + HEADER : at + HEADER + length]
        at += HEADER + length


def _named(values: list[str | None] | None, table: TableVersion | None) -> Mapping[str, str | None]:
    if values is None or table is None:
        return {}
    return {column.name: value for column, value in zip(table.columns, values, strict=True)}


def _shown(row: Mapping[str, Any], table: TableVersion | None) -> Mapping[str, str | None]:
    """The values that a line shows: without what did not change, and for DELETE only the key."""
    unchanged = {table.columns[i].name for i in row["unchanged"] or ()} if table else set()
    named = _named(row["values"], table)
    if row["op"] == DELETE:
        named = {name: value for name, value in _named(row["old"], table).items() if value is not None}
    return {name: value for name, value in named.items() if name not in unchanged}


def _plain_line(row: Mapping[str, Any], table: TableVersion | None) -> str:
    when = row["commit_ts"].strftime("%H:%M:%S.%f")[:-3] if row["commit_ts"] else "-"
    place = f"{Lsn(row['commit_lsn'])}.{row['seq']}"
    if row["op"] == MESSAGE:
        return f"{when}  {place}  MESSAGE  {row['prefix']}  {row['content']}"
    values = " ".join(f"{name}={_quoted(value)}" for name, value in _shown(row, table).items())
    return f"{when}  {place}  {_WORDS[row['op']]:8}  {row['schema']}.{row['table']}  {values}".rstrip()


def _quoted(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _json_line(row: Mapping[str, Any], table: TableVersion | None) -> str:
    return json.dumps(
        {
            "commit_lsn": str(Lsn(row["commit_lsn"])),
            "seq": row["seq"],
            "xid": row["xid"],
            "commit_ts": row["commit_ts"].isoformat() if row["commit_ts"] else None,
            "op": row["op"],
            "schema": row["schema"],
            "table": row["table"],
            "values": _shown(row, table) if row["op"] != DELETE else None,
            "old": _named(row["old"], table) or None,
            "unchanged": [table.columns[i].name for i in row["unchanged"] or ()] if table else [],
            "prefix": row["prefix"],
            "content": row["content"],
        },
        ensure_ascii=False,
    )
