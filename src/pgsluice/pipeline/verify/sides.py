"""The source's rows as a target would hold them: copied, through the modifiers, and cast by the target."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from pgsluice.pipeline.batch import LogStep
from pgsluice.pipeline.copy import SMALL_BYTES
from pgsluice.postgres.session import lift_limits
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.snapshot.ranges import Copied, cut
from pgsluice.source.snapshot.touched import keyed_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Chain
    from pgsluice.pipeline.verify.plan import Planned
    from pgsluice.sinks.base import Comparison, Key, RowDigests, Tally
    from pgsluice.source.snapshot.ranges import CopyRange
    from pgsluice.source.snapshot.touched import KeyedRows

_ROWS_AT_A_TIME: Final = 5000  # that are sent to a target to be cast
_KEYS_AT_ONCE: Final = 20_000  # more are found faster by reading the table


@dataclass(frozen=True, slots=True)
class Reading:
    """How rows of the source come through the modifiers."""

    url: str
    chain: Chain
    spark: Callable[[], SparkSession]
    scratch: Path


@dataclass(frozen=True, slots=True)
class ThroughChain:
    """The rows of one table."""

    reading: Reading
    target: Comparison
    planned: Planned

    def by_bucket(self, buckets: int) -> dict[int, Tally]:
        """Number and sum of the digests of all rows, by bucket."""
        found: dict[int, Tally] = {}
        for digests in self._digests(()):
            for bucket, tally in digests.by_bucket(buckets).items():
                found[bucket] = _added(found.get(bucket), tally)
        return found

    def by_key(self, buckets: int, chosen: Sequence[int], keys: Collection[Key] = ()) -> dict[Key, Tally]:
        """The same by key, of some buckets; with ``keys``, of these alone."""
        found: dict[Key, Tally] = {}
        wanted = set(keys)
        for digests in self._digests(keys):
            for key, tally in digests.by_key(buckets, chosen).items():
                if not wanted or key in wanted:
                    found[key] = _added(found.get(key), tally)
        return found

    def _digests(self, keys: Collection[Key]) -> Iterator[RowDigests]:
        for chunk in self._chunks(keys):
            for start in range(0, chunk.num_rows, _ROWS_AT_A_TIME):
                yield self.target.expected(self.planned.compared, chunk.slice(start, _ROWS_AT_A_TIME))

    def _chunks(self, keys: Collection[Key]) -> Iterator[pa.Table]:
        """The rows after the modifiers; of all keys, or at least of these."""
        reading, planned = self.reading, self.planned
        tables = {planned.version.id: planned.version}
        modification = reading.chain.of(tables)
        with _snapshot(reading.url) as snapshot:
            parts = self._parts(snapshot, keys)
            step = LogStep(
                parts,
                tables,
                modification,
                reading.spark,
                reading.scratch,
                small=bool(modification) and sum(part.bytes for part in parts) <= SMALL_BYTES,
                on_driver=not modification,
            )
            yield from step.chunks()

    def _parts(self, snapshot: str, keys: Collection[Key]) -> Sequence[CopyRange | KeyedRows]:
        planned, url = self.planned, self.reading.url
        version = planned.version
        about = Copied(
            0, dt.datetime.now(dt.UTC), 0, version.id, version.schema, version.name, len(version.columns)
        )
        if keys and planned.finds_by_key and len(keys) <= _KEYS_AT_ONCE:
            return keyed_rows(planned.table, version, url, snapshot, list(keys), map(about.part, count()))
        return cut(planned.table, url, snapshot, about, empties=False)


@contextmanager
def _snapshot(url: str) -> Iterator[str]:
    """One point for all connections that read the table."""
    with source_errors(url, "take a snapshot"), connect(url, application_name="pgsluice verify") as conn:
        lift_limits(conn)
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = conn.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()
        assert row is not None
        yield str(row[0])


def _added(one: Tally | None, other: Tally) -> Tally:
    return other if one is None else (one[0] + other[0], one[1] + other[1])
