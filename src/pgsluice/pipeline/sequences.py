"""
Sequences of a target that follow those of the source.

They are not in the stream, so they are read beside it: now and then while it runs, and when a run has caught
up. A value that is read is at least as far as any row that was streamed until then. It never goes back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.errors import SluiceError
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.snapshot.tables import owned_sequences, sequence_values

if TYPE_CHECKING:
    from pgsluice.schema.renames import Renames, TableName
    from pgsluice.sinks.base import TakesSchema

logger = structlog.get_logger(__name__)

_SECONDS: Final = 10.0


class FollowedSequences:
    """The sequences of one target."""

    def __init__(self, url: str, sink: TakesSchema, renames: Renames) -> None:
        self._url = url
        self._sink = sink
        self._renames = renames
        self._known: dict[TableName, int] = {}
        self._looked_at = time.monotonic()

    def follow(self, *, now: bool = False) -> None:
        """Set what has moved since the last look, if that is long ago."""
        if not now and time.monotonic() - self._looked_at < _SECONDS:
            return
        self._looked_at = time.monotonic()
        try:
            values = self._read()
            moved = {name: value for name, value in values.items() if self._known.get(name) != value}
            if moved:
                self._sink.set_sequences(moved)
            self._known = values
        except SluiceError as exc:
            if not exc.transient:
                raise
            logger.warning("sequences not set, trying again later", reason=str(exc))

    def _read(self) -> dict[TableName, int]:
        with source_errors(self._url, "read the sequences"), connect(self._url) as conn:
            renames = self._renames.with_owned(owned_sequences(conn)) if self._renames else self._renames
            return {renames.table(name): value for name, value in sequence_values(conn).items()}
