"""Reading a log without Spark: every row of it as a dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsluice.schema.store import SchemaStore
from pgsluice.source.relations import Relations
from pgsluice.source.tasks import decode

if TYPE_CHECKING:
    from pgsluice.changelog.position import Lsn
    from pgsluice.changelog.reader import LogReader


def rows_of(reader: LogReader, after: Lsn | None = None) -> list[dict[str, Any]]:
    """All rows from the log's beginning, or after a position, to its end, in order."""
    store = SchemaStore(Path(":memory:"))
    relations = Relations(store)
    found: list[dict[str, Any]] = []
    position = reader.first_lsn if after is None else after
    while (piece := reader.next(position, 1 << 20)) is not None:
        parts, _ = relations.resolve(piece.ranges)
        for part in parts:
            found += decode(part).to_pylist()
        position = piece.end
    store.close()
    return found
