"""
The progress token beside the data, and the fence around it.

One row per pipeline. ``epoch`` grows with every opener; only the newest one can move the token, and only
from the token it was told to start at. The row is locked from the start of a batch to its end, so a new
opener waits for a batch that is being committed and then sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgsluice.errors import TargetFencedError

if TYPE_CHECKING:
    from pgsluice.postgres.session import Connection
    from pgsluice.sinks.base import Batch

SCHEMA: Final = "pgsluice"
PROGRESS: Final = f"{SCHEMA}.progress"


class ProgressRow:
    """The row of one pipeline. Every method runs inside the caller's transaction."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.epoch = 0

    def take_over(self, conn: Connection) -> str | None:
        """Become the newest opener; the token that is kept."""
        row = conn.execute("SELECT pg_catalog.to_regclass(%s) IS NULL", (PROGRESS,)).fetchone()
        if row == (True,):
            conn.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            conn.execute(
                f"CREATE TABLE IF NOT EXISTS {PROGRESS} (pipeline text PRIMARY KEY, token text, "
                "epoch bigint NOT NULL, updated_at timestamptz NOT NULL DEFAULT now())"
            )
        kept = conn.execute(
            f"INSERT INTO {PROGRESS} AS p (pipeline, epoch) VALUES (%s, 1) "  # noqa: S608 - a constant
            "ON CONFLICT (pipeline) DO UPDATE SET epoch = p.epoch + 1 RETURNING token, epoch",
            (self.pipeline,),
        ).fetchone()
        assert kept is not None
        token, self.epoch = kept
        return None if token is None else str(token)

    def holds(self, batch: Batch, conn: Connection) -> bool:
        """Whether the batch is in the target already: it was committed, but its reply was lost."""
        kept = conn.execute(
            f"SELECT token FROM {PROGRESS} WHERE pipeline = %s AND epoch = %s FOR UPDATE",  # noqa: S608
            (self.pipeline, self.epoch),
        ).fetchone()
        if kept is None or kept[0] not in (batch.start, batch.end):
            raise self._fenced()
        return bool(kept[0] == batch.end != batch.start)

    def move(self, batch: Batch, conn: Connection) -> None:
        """Set the batch's token, beside its rows."""
        moved = conn.execute(
            f"UPDATE {PROGRESS} SET token = %s, updated_at = now() "  # noqa: S608
            "WHERE pipeline = %s AND epoch = %s AND token IS NOT DISTINCT FROM %s",
            (batch.end, self.pipeline, self.epoch, batch.start),
        )
        if moved.rowcount != 1:
            raise self._fenced()

    def remove(self, conn: Connection) -> None:
        """Forget the pipeline."""
        conn.execute(f"DELETE FROM {PROGRESS} WHERE pipeline = %s", (self.pipeline,))  # noqa: S608

    def _fenced(self) -> TargetFencedError:
        return TargetFencedError(
            f"another run of the pipeline {self.pipeline} has moved on in this database",
            remedy="Let only one run write to it, or give the second pipeline a name of its own",
            pipeline=self.pipeline,
        )
