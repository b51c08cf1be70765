"""
A snapshot that is held for reads of several tables and several actions.

Spark's reader lives for a moment, and a second action uses the tasks that were planned for the first; so the
snapshot is held by whoever runs the block. What readers need to enter it travels as an option.
"""

from __future__ import annotations

import datetime as dt
import json
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from pgsluice.changelog.position import Lsn
from pgsluice.errors import ConfigError, SluiceError, SnapshotEndedError, SourceUnreachableError
from pgsluice.source.connect import source_errors
from pgsluice.source.snapshot.point import enter, hold_point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.postgres.session import Connection


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """What it takes to read in a snapshot that somebody holds."""

    name: str  # for SET TRANSACTION SNAPSHOT
    sees: str  # which transactions; names come again after a restart of the server, these don't
    lsn: Lsn  # everything committed before is in the snapshot, everything after is in the stream
    taken_at: dt.datetime

    def encode(self) -> str:
        """As the value of an option."""
        return json.dumps(
            {"name": self.name, "sees": self.sees, "lsn": str(self.lsn), "at": self.taken_at.isoformat()}
        )

    @classmethod
    def decode(cls, text: str) -> HeldSnapshot:
        """Read the value of an option."""
        try:
            given = json.loads(text)
            taken_at = dt.datetime.fromisoformat(given["at"])
            return cls(given["name"], given["sees"], Lsn.parse(given["lsn"]), taken_at)
        except (ValueError, TypeError, KeyError) as exc:
            raise ConfigError(
                "the option snapshot names no snapshot",
                remedy="Take it from the options of pgsluice.spark.snapshot(...)",
            ) from exc


@contextmanager
def hold_snapshot(url: str) -> Iterator[HeldSnapshot]:
    """A snapshot of now, for as long as the block runs."""
    # Not by "with": what fails inside the block has nothing to do with the connection that holds it.
    stack = ExitStack()
    point = stack.enter_context(hold_point(url))
    try:
        with source_errors(url, "take a snapshot"):
            row = point.conn.execute("SELECT pg_catalog.pg_current_snapshot()::text").fetchone()
        assert row is not None
        yield HeldSnapshot(point.snapshot, row[0], point.lsn, dt.datetime.now(dt.UTC))
    finally:
        with suppress(SluiceError):
            stack.close()


def enter_held(conn: Connection, held: HeldSnapshot) -> None:
    """Begin a transaction in a held snapshot; raises when nobody holds it any more."""
    try:
        enter(conn, held.name)
    except (SourceUnreachableError, psycopg.errors.ObjectNotInPrerequisiteState) as exc:
        raise _ended(held) from exc
    row = conn.execute("SELECT pg_catalog.pg_current_snapshot()::text").fetchone()
    if row is None or row[0] != held.sees:
        raise _ended(held)


def _ended(held: HeldSnapshot) -> SnapshotEndedError:
    return SnapshotEndedError(
        f"the snapshot of {held.taken_at:%Y-%m-%d %H:%M:%S} UTC at {held.lsn} has ended",
        remedy="Run every action inside the block of pgsluice.spark.snapshot(...), or cache the frame there",
        lsn=str(held.lsn),
    )
