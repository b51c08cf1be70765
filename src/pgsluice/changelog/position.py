"""
Where something stands in the stream: LSNs, positions of changes, and progress of sinks.

The one place that parses and prints LSNs and progress tokens.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

from pgsluice.errors import ConfigError, WrongSystemError

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
class Progress:
    """
    How far a sink is: everything up to and including ``end_lsn`` is applied.

    Sinks keep the encoded form and never look inside: other sources have tokens of their own.
    """

    system_id: str  # of the source cluster; another one means other data
    timeline: int
    end_lsn: Lsn  # end of the last applied transaction

    def encode(self) -> str:
        """The token that a sink keeps beside its data."""
        return json.dumps({"system": self.system_id, "timeline": self.timeline, "lsn": str(self.end_lsn)})

    @classmethod
    def decode(cls, token: str) -> Progress:
        """Read a token back."""
        try:
            fields = json.loads(token)
            return cls(str(fields["system"]), int(fields["timeline"]), Lsn.parse(fields["lsn"]))
        except (ValueError, KeyError, TypeError) as exc:
            raise WrongSystemError(
                f"the target's progress {token!r} is not a position of a PostgreSQL source",
                remedy="Use another target, or remove its progress and copy the data again",
            ) from exc
