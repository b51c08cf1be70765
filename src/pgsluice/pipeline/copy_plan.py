"""
What a copy does in which order: the ranges of tables, in batches, with how far each table is after them.

Neighbours: ``copy.py`` carries the plan out.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
import structlog

from pgsluice.changelog.envelope import SNAPSHOT
from pgsluice.changelog.position import PartlyCopied
from pgsluice.pipeline.batch import LogStep
from pgsluice.schema.catalog import completed, describe_types
from pgsluice.source.pgoutput.relation import relation_message, table_version
from pgsluice.source.snapshot.ranges import Copied, CopyRange, cut
from pgsluice.source.snapshot.touched import KeyedRows, RemovedKeys, keyed_rows, removed_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from pgsluice.changelog.position import Copies, Lsn
    from pgsluice.pipeline.touched import TouchedKeys
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import RawRange
    from pgsluice.source.snapshot.point import Point
    from pgsluice.source.snapshot.tables import CopiedTable

logger = structlog.get_logger(__name__)

BATCH_BYTES: Final = 256 << 20  # of tables: what lies decoded on the disk at a time, and as much ahead
RAW_BATCHES: Final = 4  # times as much of rows that are not decoded: at the end of each batch cores wait

CopyPart = CopyRange | RemovedKeys | KeyedRows


@dataclass(frozen=True, slots=True)
class CopyBatch:
    """Ranges that are applied together, and what is copied once they are."""

    parts: tuple[CopyPart, ...]
    versions: dict[int, TableVersion]
    finished: tuple[int, ...]  # tables whose last range is here or before
    begun: Mapping[int, PartlyCopied]


@dataclass(frozen=True, slots=True)
class Planned:
    """One part of a table, and how far its table is after it."""

    part: CopyPart
    version: TableVersion
    partly: PartlyCopied | None  # None: it is whole


class CopyStep(LogStep):
    """The data of some ranges of tables."""

    @property
    def ranges(self) -> Sequence[RawRange]:
        """
        The rows as COPY's text, if no modifier has to see them.

        Nor a table that was copied in part before: of its rows some may be there already.
        """
        whole = all(isinstance(part, CopyRange) and not part.resumes for part in self._copied)
        return (
            [part for part in self._copied if isinstance(part, CopyRange)]
            if whole and not self._modification
            else ()
        )

    def __init__(self, parts: Sequence[CopyPart], *rest: Any, small: bool) -> None:
        super().__init__(parts, *rest, small=small)
        self._copied = parts
        self.rows: Counter[int] = Counter()  # that were copied, by table version

    def chunks(self) -> Iterator[pa.Table]:
        """The rows as Arrow tables, counted."""
        self.rows.clear()
        for chunk in super().chunks():
            copied = chunk["relation"].filter(pc.equal(chunk["op"], SNAPSHOT))
            self.rows.update({int(n["values"]): int(n["counts"]) for n in copied.value_counts().to_pylist()})
            yield chunk

    def each_range(self, work: Callable[[RawRange], int]) -> list[int]:
        """The same for rows as COPY's text."""
        counts = super().each_range(work)
        self.rows.clear()
        for part, rows in zip(self.ranges, counts, strict=True):
            self.rows[part.relation] += rows
        return counts


class CopyPlan:
    """Plans copies from one source."""

    def __init__(self, url: str, store: SchemaStore, touched: TouchedKeys | None) -> None:
        self._url = url
        self._store = store
        self._touched = touched  # None: there is no log that knows

    def batches(
        self, tables: Sequence[CopiedTable], point: Point, copies: Copies, to_empty: set[int], *, raw: bool
    ) -> Iterator[CopyBatch]:
        """
        The batches that copy these tables at a point.

        Those of ``to_empty`` lose their rows first. ``raw``: the target takes the source's COPY as it is.
        """
        taken_at = dt.datetime.now(dt.UTC)
        pending: list[Planned] = []
        size = 0
        finished: list[int] = []
        for table in tables:
            version = registered(self._store, table, point.conn)
            about = Copied(
                int(point.lsn), taken_at, 0, version.id, version.schema, version.name, len(version.columns)
            )
            rest = self._rest(table, version, about, point, copies)
            if rest is not None and pending:  # its rows go another way than those of new tables
                yield _batch(pending, finished)
                pending, size = [], 0
            empties = table.relation.relid in to_empty
            for planned in rest or _whole(table, version, about, self._url, point, empties=empties):
                pending.append(planned)
                size += planned.part.bytes
                if size >= BATCH_BYTES * (RAW_BATCHES if raw and rest is None else 1):
                    yield _batch(pending, finished)
                    pending, size = [], 0
            if rest is not None and pending:
                yield _batch(pending, finished)
                pending, size = [], 0
        if pending:
            yield _batch(pending, finished)

    def _rest(
        self, table: CopiedTable, version: TableVersion, about: Copied, point: Point, copies: Copies
    ) -> list[Planned] | None:
        """What is left of a table that was copied in part; None when it has to begin again."""
        partly = copies.partly.get(table.relation.relid)
        heaps = _heaps(table)
        if (
            partly is None
            or self._touched is None
            or not version.merge_key
            or (partly.version, partly.heaps) != (version.id, heaps)
        ):
            return None
        keys = self._touched.between(version, partly.since, point.lsn)
        if keys is None:
            return None
        logger.info(
            "going on with a table",
            table=table.qualified,
            page=partly.page,
            touched=len(keys),
        )
        url, start = self._url, (partly.heap, partly.page)
        numbers = map(about.part, count())
        # First what is no longer so: another row may have a value that only one can have.
        removed = removed_keys(version, keys, numbers)
        ranges = [
            replace(part, resumes=True, about=next(numbers))
            for part in cut(table, url, point.snapshot, about, empties=False, start=start)
        ]
        keyed = keyed_rows(table, version, url, point.snapshot, keys, numbers)
        done = [_done(partly.since, version, table, part) for part in ranges]
        planned = [Planned(part, version, partly) for part in removed]
        planned += [Planned(part, version, after) for part, after in zip(ranges, done, strict=True)]
        planned += [Planned(part, version, done[-1] if done else partly) for part in keyed]
        return [*planned[:-1], replace(planned[-1], partly=None)] if planned else []


def registered(store: SchemaStore, table: CopiedTable, conn: Connection) -> TableVersion:
    """The table's version, with the number that the stream will use for it too."""
    relation = table.relation
    types = describe_types(conn, [column.type_oid for column in relation.columns])
    now = table_version(relation, 0, types)
    known = store.register(relation_message(relation), lambda: completed(now, conn), complete=True)
    # A version is known by the numbers of its types, which may be called otherwise since.
    columns = zip(known.columns, now.columns, strict=True)
    return replace(known, columns=tuple(replace(column, type=new.type) for column, new in columns))


def _whole(
    table: CopiedTable, version: TableVersion, about: Copied, url: str, point: Point, *, empties: bool
) -> list[Planned]:
    """All of a table."""
    ranges = cut(table, url, point.snapshot, about, empties=empties)
    after: list[PartlyCopied | None] = [_done(point.lsn, version, table, part) for part in ranges[:-1]]
    return [Planned(part, version, done) for part, done in zip(ranges, [*after, None], strict=True)]


def _done(since: Lsn, version: TableVersion, table: CopiedTable, part: CopyRange) -> PartlyCopied:
    """How far a table is after one of its ranges."""
    place = table.heaps.index(part.heap)
    heap, page = (place + 1, 0) if part.end_page is None else (place, part.end_page)
    return PartlyCopied(since, version.id, _heaps(table), heap, page)


def _heaps(table: CopiedTable) -> tuple[tuple[int, int], ...]:
    return tuple((heap.relid, heap.filenode) for heap in table.heaps)


def _batch(pending: Sequence[Planned], finished: list[int]) -> CopyBatch:
    """The pending parts as a batch; ``finished`` grows by the tables that end in it."""
    finished += [planned.version.relid for planned in pending if planned.partly is None]
    last = pending[-1]
    return CopyBatch(
        tuple(planned.part for planned in pending),
        {planned.version.id: planned.version for planned in pending},
        tuple(finished),
        {} if last.partly is None else {last.version.relid: last.partly},
    )


def after(copies: Copies, lsn: Lsn, batch: CopyBatch) -> Copies:
    """What is copied after a batch; a table of an earlier point that is not whole yet stays begun."""
    done = {*batch.finished, *batch.begun}
    left = tuple(relid for relid in copies.begun if relid not in done)
    partly = {relid: part for relid, part in copies.partly.items() if relid not in done}
    return replace(
        copies.with_copied(lsn, batch.finished),
        begun=(*left, *batch.begun),
        partly={**partly, **batch.begun},
        finished=False,
    )
