"""
Where something stands in the stream: LSNs, positions of changes, and progress of sinks.

The one place that parses and prints LSNs and progress tokens.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pgsluice.errors import ConfigError, WrongSystemError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


class Lsn(int):
    """A byte position in the write-ahead log; prints the way PostgreSQL does."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read ``0/16B3748``."""
        match = _LSN.fullmatch(text.strip())
        if match is None:
            raise ConfigError(f"{text!r} is not an LSN", remedy="Write it as PostgreSQL does, like 0/16B3748")
        return cls((int(match[1], 16) << 32) | int(match[2], 16))

    def __str__(self) -> str:
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    __repr__ = __str__


class Position(NamedTuple):
    """
    The place of one change in the total order of all changes.

    ``seq`` numbers the row changes and messages of a transaction from 1, so the position of a
    change is the same after every reconnect. The relations of one TRUNCATE share a position.
    """

    commit_lsn: Lsn
    seq: int


@dataclass(frozen=True, slots=True)
class PartlyCopied:
    """How far the copy of a table is that was broken off."""

    since: Lsn  # the first point that some of it was copied at
    version: int
    heaps: tuple[tuple[int, int], ...]  # number and file of each: in another file rows are elsewhere
    heap: int  # the next to copy, by its place among them
    page: int


@dataclass(frozen=True, slots=True)
class Copies:
    """
    What a sink holds of tables that are copied: which of them, at which points of the stream.

    A table that was copied at a point has everything that was committed before it. Tables are numbered as
    the source does (relid).
    """

    points: Mapping[Lsn, tuple[int, ...]] = field(default_factory=dict)  # the tables copied there
    begun: tuple[int, ...] = ()  # tables of which some rows are there and others not
    partly: Mapping[int, PartlyCopied] = field(default_factory=dict)  # those that can be gone on with
    finished: bool = False
    left: tuple[int, ...] = ()  # copied tables whose changes were passed over since: to be copied anew

    @property
    def tables(self) -> set[int]:
        """All tables that were copied."""
        return {relid for relids in self.points.values() for relid in relids}

    @property
    def last_point(self) -> Lsn:
        """The last point that something was copied at."""
        return max(self.points, default=Lsn(0))

    def point_of(self, relid: int) -> Lsn | None:
        """The point that a table was copied at; None for one that was not."""
        return next((lsn for lsn, relids in self.points.items() if relid in relids), None)

    def with_copied(self, lsn: Lsn, relids: Iterable[int]) -> Copies:
        """The same with tables that were copied at a point, perhaps for the second time."""
        copied = tuple(relids)
        before = {
            point: tuple(relid for relid in held if relid not in copied)
            for point, held in self.points.items()
        }
        points = {point: held for point, held in before.items() if held or point == lsn}
        return replace(
            self,
            points={**points, lsn: (*points.get(lsn, ()), *copied)},
            left=tuple(relid for relid in self.left if relid not in copied),
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """
    How far a sink is: everything up to and including ``end_lsn`` is applied.

    Sinks keep the encoded form and never look inside: other sources have tokens of their own.
    """

    system_id: str  # of the source cluster and its database; another one means other data
    timeline: int
    end_lsn: Lsn  # end of the last applied transaction
    copies: Copies | None = None  # None: nothing was copied
    anew: tuple[int, ...] = ()  # tables whose rows are old: they are being copied anew
    replays: int = 0  # how often dead letters were replayed: tells tokens at one position apart
    names: str | None = None  # other names that the target has for tables; None: not said
    views: tuple[tuple[str, str], ...] = ()  # materialized views to be filled when nothing is copied anew

    def encode(self) -> str:
        """The token that a sink keeps beside its data."""
        fields: dict[str, Any] = {
            "system": self.system_id,
            "timeline": self.timeline,
            "lsn": str(self.end_lsn),
        }
        if self.copies is not None:
            fields["copies"] = {
                "points": {str(lsn): relids for lsn, relids in self.copies.points.items()},
                "begun": self.copies.begun,
                "partly": {str(relid): _fields(part) for relid, part in self.copies.partly.items()},
                "finished": self.copies.finished,
                "left": self.copies.left,
            }
        if self.anew:
            fields["anew"] = self.anew
        if self.replays:
            fields["replays"] = self.replays
        if self.names is not None:
            fields["names"] = self.names
        if self.views:
            fields["views"] = self.views
        return json.dumps(fields)

    def require_system(self, system_id: str, target: str) -> None:
        """Raise when a target holds data of another source."""
        if self.system_id != system_id:
            raise WrongSystemError(
                f"target {target!r} holds data of system {self.system_id}, the source is {system_id}",
                remedy="Give this pipeline a name of its own (name) if both write to one target; or use "
                "another target, or empty this one and copy the data again",
            )

    def require_names(self, names: str, target: str) -> None:
        """Raise when a target was filled under other names: its tables would get the changes of none."""
        if self.names is not None and self.names != names:
            raise ConfigError(
                f"target {target!r} was filled with the names {self.names or 'of the source'}, "
                f"now they are {names or 'those of the source'}",
                remedy="Put schema_map and tables of the target back; or begin anew with an empty target",
            )

    @classmethod
    def decode(cls, token: str) -> Progress:
        """Read a token back."""
        try:
            fields = json.loads(token)
            copies = fields.get("copies")
            return cls(
                str(fields["system"]),
                int(fields["timeline"]),
                Lsn.parse(fields["lsn"]),
                None if copies is None else _copies(copies),
                tuple(fields.get("anew", ())),
                int(fields.get("replays", 0)),
                fields.get("names"),
                tuple((schema, name) for schema, name in fields.get("views", ())),
            )
        except (ValueError, KeyError, TypeError) as exc:
            raise WrongSystemError(
                f"the target's progress {token!r} is not a position of a PostgreSQL source",
                remedy="Use another target, or remove its progress and copy the data again",
            ) from exc


def _fields(part: PartlyCopied) -> dict[str, Any]:
    return {**asdict(part), "since": str(part.since)}


def _partly(fields: dict[str, Any]) -> PartlyCopied:
    heaps = tuple((int(relid), int(file)) for relid, file in fields["heaps"])
    return PartlyCopied(
        Lsn.parse(fields["since"]), int(fields["version"]), heaps, int(fields["heap"]), int(fields["page"])
    )


def _copies(fields: dict[str, Any]) -> Copies:
    return Copies(
        {Lsn.parse(lsn): tuple(relids) for lsn, relids in fields["points"].items()},
        tuple(fields["begun"]),
        {int(relid): _partly(part) for relid, part in fields.get("partly", {}).items()},
        bool(fields["finished"]),
        tuple(fields.get("left", ())),
    )
