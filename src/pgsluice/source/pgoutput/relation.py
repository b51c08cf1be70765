"""
Relation and Type messages as the schema store wants them.

The listener's index says where these messages stand; they are few, so ``plain.py`` reads them. A table that
is copied has no message in the log: it is made as the stream would have it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pgsluice.errors import DecodeError
from pgsluice.schema.pgtypes import resolve
from pgsluice.schema.table import Column, TableVersion
from pgsluice.source.pgoutput.messages import Relation, RelationColumn, Type
from pgsluice.source.pgoutput.plain import decode_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.schema.table import PgType


def parse_relation(message: bytes) -> Relation:
    """Read a Relation message."""
    relation = decode_message(message)
    if not isinstance(relation, Relation):
        raise DecodeError(f"{type(relation).__name__} where a Relation is expected")
    return relation


def relation_message(relation: Relation) -> bytes:
    """The message as pgoutput sends it: what the schema store knows a version by."""
    columns = b"".join(
        bytes([column.in_identity])
        + column.name.encode()
        + b"\0"
        + struct.pack(">Ii", column.type_oid, column.typmod)
        for column in relation.columns
    )
    schema = "" if relation.schema == "pg_catalog" else relation.schema
    names = b"".join(name.encode() + b"\0" for name in (schema, relation.name))
    head = b"R" + struct.pack(">I", relation.relid) + names + relation.identity.encode()
    return head + struct.pack(">H", len(relation.columns)) + columns


def with_schema_renamed(message: bytes, old: str, new: str) -> bytes:
    """A Relation message as it is after a schema got another name; the same if its table is elsewhere."""
    start = len(b"R") + 4  # its kind and the table's number
    end = message.index(b"\0", start)
    return message[:start] + new.encode() + message[end:] if message[start:end] == old.encode() else message


def parse_type(message: bytes) -> Type:
    """Read a Type message."""
    kind = decode_message(message)
    if not isinstance(kind, Type):
        raise DecodeError(f"{type(kind).__name__} where a Type is expected")
    return kind


def table_version(relation: Relation, id: int, types: Mapping[int, PgType]) -> TableVersion:  # noqa: A002
    """The version of a table that a Relation describes; ``types`` are the user's own, by number."""
    return TableVersion(
        id=id,
        relid=relation.relid,
        schema=relation.schema,
        name=relation.name,
        identity=relation.identity,
        columns=tuple(_column(column, types) for column in relation.columns),
    )


def _column(column: RelationColumn, types: Mapping[int, PgType]) -> Column:
    return Column(column.name, resolve(column.type_oid, column.typmod, types), column.in_identity)
