"""
The messages of pgoutput's protocol 1, as records.

``plain.py`` makes them from bytes. The compiled decoder does not: it goes from bytes to columns.
https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias


class Unchanged(Enum):
    """The type of ``UNCHANGED``."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
"""A TOAST value that the update did not change, and that the server therefore did not send."""

Value: TypeAlias = str | bytes | Unchanged | None
"""One column of a tuple: its text, or its bytes where they are not UTF-8."""

Tuple: TypeAlias = tuple[Value, ...]
"""A row, in the order of its Relation's columns."""

OldKind: TypeAlias = Literal["K", "O"]
"""What an old tuple holds: the columns of the key (others are None), or the whole row."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction starts."""

    commit_lsn: int  # of its commit record
    commit_ts: int  # microseconds since 2000-01-01 UTC
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends."""

    commit_lsn: int
    end_lsn: int
    commit_ts: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The transaction came to the server by replication."""

    commit_lsn: int  # on the origin
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column in a Relation."""

    name: str
    type_oid: int
    typmod: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as the rows after this message have it."""

    relid: int
    schema: str
    name: str
    identity: Literal["d", "n", "f", "i"]
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Type:
    """The name of a type that is not built in."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    relid: int
    new: Tuple


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row; the old tuple only where the replica identity asks for it."""

    relid: int
    new: Tuple
    old: Tuple | None = None
    old_kind: OldKind | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """A deleted row."""

    relid: int
    old: Tuple
    old_kind: OldKind


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that one statement emptied."""

    relids: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What ``pg_logical_emit_message`` sent."""

    transactional: bool
    lsn: int
    prefix: str | bytes
    content: bytes


Message: TypeAlias = (
    Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | LogicalMessage
)
"""Any message of protocol 1."""
