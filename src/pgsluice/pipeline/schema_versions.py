"""
Versions of the schema: numbered as the loops read the log, and acknowledged on the source.

The first loop that comes to a change gives it its number. Neighbours: ``schema/history.py`` keeps them,
``schema_steps.py`` applies them.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.changelog.position import Lsn
from pgsluice.errors import SinkBehindLogError, SourceError
from pgsluice.schema.history import SchemaRename
from pgsluice.schema.store import SchemaStore
from pgsluice.source.schema_entries import lsn_of, read_entry
from pgsluice.source.schema_log import write_acks

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pgsluice.changelog.plan import LogRange
    from pgsluice.changelog.reader import LogReader
    from pgsluice.schema.entry import SchemaEntry
    from pgsluice.schema.history import SchemaHistory, SchemaVersion
    from pgsluice.source.postgres import PostgresSource

logger = structlog.get_logger(__name__)

_ALL: Final = 1 << 62  # bytes: nothing is decoded but the changes themselves


def note_entries(reader: LogReader, history: SchemaHistory, end: Lsn) -> None:
    """
    Number all changes of the schema up to a position.

    Also those that this reader has skipped, because a copy had them: a slower one would number them too late.
    """
    after = history.last_lsn
    while after < end:
        after = max(after, reader.first_lsn)
        try:
            slice_ = reader.next(after, _ALL, _ALL, until=end)
        except SinkBehindLogError:  # the oldest segment went just now: everybody has passed it
            continue
        if slice_ is None:
            return
        found = [range_ for range_ in slice_.ranges if range_.schema]
        if found:  # all of one transaction
            assert found[0].opened is not None
            lsn = Lsn(found[0].opened.commit_lsn)
            if lsn > history.last_lsn:
                entries = [read_entry(range_) for range_ in found]
                history.add(lsn, entries, _renames(zip(found, entries, strict=True)))
        after = slice_.end


def _renames(entries: Iterable[tuple[LogRange, SchemaEntry]]) -> list[SchemaRename]:
    return [
        SchemaRename(
            opened.commit_lsn,
            opened.end_lsn,
            opened.seq,
            lsn_of(range_),
            change.before["name"],
            change.after["name"],
        )
        for range_, entry in entries
        if (opened := range_.opened) is not None
        for change in entry.changes
        if change.renames_schema and change.before and change.after
    ]


class Acknowledgements:
    """Tells the source which versions all sinks of a pipeline have passed."""

    def __init__(self, source: PostgresSource, pipeline: str, log: Path) -> None:
        self._source = source
        self._pipeline = pipeline
        self._log = log
        self._looked_at: Lsn | None = None
        self._told: list[SchemaVersion] = []

    def tell(self, position: Lsn) -> None:
        """Everything up to a position is in all targets; a source that is away is told next time."""
        if position == self._looked_at:
            return
        with closing(SchemaStore(self._log / "schema.db")) as store:
            passed = store.history.passed(position)
        new = [version for version in passed if version not in self._told]
        try:
            if new:
                write_acks(self._source.url, self._pipeline, new)
        except SourceError as exc:  # the listener says what is wrong
            logger.debug("versions of the schema not acknowledged", reason=str(exc))
            return
        self._looked_at, self._told = position, passed
