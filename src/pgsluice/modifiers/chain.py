"""
The chain of modifiers: a list of functions from DataFrame to DataFrame, applied in order.

A modifier keeps the envelope's columns. It sees the rows of a large batch as a distributed frame and
those of a small one as a local relation, which Spark evaluates without a job as long as the chain is
projections and filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pgsluice.changelog.envelope import ENVELOPE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.schema.table import TableVersion

Kind = TypeVar("Kind")

Modifier = Callable[["DataFrame", Mapping[int, "TableVersion"]], "DataFrame"]
"""
Takes entries and the table versions that they name, under the source's names; gives entries.

One with a method ``touches`` (version -> bool) is left out of batches that have none of its tables. One with
a method ``change_arrow`` (Arrow table, versions -> Arrow table) changes small batches by that, without a job.
One that makes rows shorter says with ``narrowed`` (version -> version) what they are then.
"""


class Chain:
    """Modifiers in the order of the configuration. Empty is false."""

    def __init__(self, modifiers: Sequence[Modifier] = ()) -> None:
        self._modifiers = tuple(modifiers)

    def __len__(self) -> int:
        return len(self._modifiers)

    def become(self, other: Chain) -> None:
        """Have the modifiers of another chain from now on; what is under way keeps those it began with."""
        self._modifiers = other._modifiers

    def of_kind(self, kind: type[Kind]) -> list[Kind]:
        """The modifiers of one class."""
        return [each for each in self._modifiers if isinstance(each, kind)]

    def narrowed(self, version: TableVersion) -> TableVersion:
        """A version as rows have it after the chain."""
        for modifier in self._modifiers:
            narrowed: Callable[[TableVersion], TableVersion] | None = getattr(modifier, "narrowed", None)
            version = version if narrowed is None else narrowed(version)
        return version

    def of(self, tables: Mapping[int, TableVersion]) -> Modification:
        """What the chain does to rows of these versions."""
        return Modification(
            tuple(
                each for each in self._modifiers if any(_touches(each, table) for table in tables.values())
            ),
            tables,
        )


@dataclass(frozen=True, slots=True)
class Modification:
    """The modifiers that some rows need. Empty is false: the rows go on as they are."""

    modifiers: tuple[Modifier, ...] = ()
    tables: Mapping[int, TableVersion] | None = None  # as the source calls them

    def __len__(self) -> int:
        return len(self.modifiers)

    def then(self, modifier: Modifier) -> Modification:
        """The same with one more."""
        return Modification((*self.modifiers, modifier), self.tables)

    def apply(self, frame: DataFrame) -> DataFrame:
        """The frame after every modifier."""
        for modifier in self.modifiers:
            frame = modifier(frame, self.tables or {})
        return frame

    def apply_local(self, rows: pa.Table, spark: Callable[[], SparkSession]) -> pa.Table:
        """The same for a small Arrow table, without a Spark job."""
        tables = self.tables or {}
        frame: DataFrame | None = None
        for modifier in self.modifiers:
            change_arrow = getattr(modifier, "change_arrow", None)
            if change_arrow is not None:
                rows = change_arrow(rows if frame is None else _collected(frame), tables)
                frame = None
            else:
                frame = modifier(spark().createDataFrame(rows) if frame is None else frame, tables)
        return rows if frame is None else _collected(frame)


def _collected(frame: DataFrame) -> pa.Table:
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    # Collected as plain values: toArrow would be a job, and a timestamp would come in local time.
    collected = frame.withColumn("commit_ts", F.unix_micros("commit_ts")).collect()
    columns = {
        field.name: pa.array(
            [row[field.name] for row in collected],
            pa.int64() if field.name == "commit_ts" else field.type,
        )
        for field in ENVELOPE
    }
    columns["commit_ts"] = columns["commit_ts"].cast(ENVELOPE.field("commit_ts").type)
    return pa.table(columns, schema=ENVELOPE)


def _touches(modifier: Modifier, table: TableVersion) -> bool:
    touches: Callable[[TableVersion], bool] | None = getattr(modifier, "touches", None)
    return touches is None or touches(table)
