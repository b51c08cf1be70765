"""Changes of the schema out of the log: the rows of ``pgsluice.schema_log`` that the stream has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.errors import DecodeError
from pgsluice.schema.entry import SchemaEntry
from pgsluice.source.pgoutput.frames import read_frame, read_lsn
from pgsluice.source.pgoutput.messages import Insert, Relation
from pgsluice.source.pgoutput.plain import decode_message

if TYPE_CHECKING:
    from pgsluice.changelog.plan import LogRange


def lsn_of(range_: LogRange) -> int:
    """Where in the WAL the entry stands that is the whole of a range."""
    with open(range_.path, "rb") as file:  # noqa: PTH123 - as below
        return read_lsn(file, range_.start)


def read_entry(range_: LogRange) -> SchemaEntry:
    """The entry that is the whole of a range."""
    with open(range_.path, "rb") as file:  # noqa: PTH123 - a string, for the workers' sake
        row = decode_message(read_frame(file, range_.start))
        if not isinstance(row, Insert):
            raise DecodeError(f"{type(row).__name__} where a change of the schema is expected")
        for offset in reversed(range_.relations):
            relation = decode_message(read_frame(file, offset))
            if isinstance(relation, Relation) and relation.relid == row.relid:
                names = (column.name for column in relation.columns)
                values = (value if isinstance(value, str) else None for value in row.new)
                return SchemaEntry.of_row(dict(zip(names, values, strict=True)))
    raise DecodeError("a change of the schema without its table's description")
