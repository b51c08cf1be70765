"""
The chain of modifiers: a list of functions from DataFrame to DataFrame, applied in order.

A modifier keeps the envelope's columns; only the injector, which comes last, adds to them. It sees the rows
of a large batch as a distributed frame and those of a small one as a local relation, which Spark evaluates
without a job as long as the chain is projections and filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from pgsluice.changelog.envelope import schema_of
from pgsluice.errors import ConfigError
from pgsluice.modifiers.injector.apply import Injection, Injector

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
    """
    Modifiers in the order of the configuration. Empty is false.

    An injector among them comes after all others, wherever it stands.
    """

    def __init__(self, modifiers: Sequence[Modifier | Injector] = ()) -> None:
        injectors = [each for each in modifiers if isinstance(each, Injector)]
        if len(injectors) > 1:
            raise ConfigError("a chain has two injectors", remedy="Give it one")
        others = tuple(each for each in modifiers if not isinstance(each, Injector))
        self._parts: tuple[tuple[Modifier, ...], Injector | None] = others, next(iter(injectors), None)

    def __len__(self) -> int:
        modifiers, injector = self._parts
        return len(modifiers) + (injector is not None)

    def become(self, other: Chain) -> None:
        """Have the modifiers of another chain from now on; what is under way keeps those it began with."""
        self._parts = other._parts

    def of_kind(self, kind: type[Kind]) -> list[Kind]:
        """The modifiers of one class."""
        return [each for each in (*self._parts[0], self._parts[1]) if isinstance(each, kind)]

    def without_injector(self) -> Chain:
        """What happens to rows before they get an identity."""
        return Chain(self._parts[0])

    def is_needed(self, *, injects: bool) -> bool:
        """Whether rows may have to be seen, for a target that asks for identities or for another one."""
        modifiers, injector = self._parts
        return bool(modifiers) or (injector is not None and (injects or injector.without_identity != "pass"))

    def narrowed(self, version: TableVersion) -> TableVersion:
        """A version as rows have it after the chain."""
        modifiers, injector = self._parts
        for modifier in modifiers:
            narrowed: Callable[[TableVersion], TableVersion] | None = getattr(modifier, "narrowed", None)
            version = version if narrowed is None else narrowed(version)
        return version if injector is None else injector.narrowed(version)

    def of(self, tables: Mapping[int, TableVersion], *, injects: bool = False) -> Modification:
        """What the chain does to rows of these versions; ``injects``: the target asks for identities."""
        modifiers, injector = self._parts
        needed = tuple(each for each in modifiers if any(_touches(each, table) for table in tables.values()))
        if injector is None:
            return Modification(needed, tables)
        narrowed = {number: self.narrowed(version) for number, version in tables.items()}
        return Modification(needed, tables, Injection(injector, narrowed, adds=injects))


@dataclass(frozen=True, slots=True)
class Modification:
    """The modifiers that some rows need. Empty is false: the rows go on as they are."""

    modifiers: tuple[Modifier, ...] = ()
    tables: Mapping[int, TableVersion] | None = None  # as the source calls them
    injection: Injection | None = None  # after all of them

    def __len__(self) -> int:
        return len(self.modifiers) + bool(self.injection)

    def then(self, modifier: Modifier) -> Modification:
        """The same with one more."""
        return replace(self, modifiers=(*self.modifiers, modifier))

    def apply(self, frame: DataFrame) -> DataFrame:
        """The frame after every modifier."""
        for modifier in self.modifiers:
            frame = modifier(frame, self.tables or {})
        return frame if self.injection is None else self.injection.apply(frame)

    def apply_local(self, rows: pa.Table, spark: Callable[[], SparkSession]) -> pa.Table:
        """The same for a small Arrow table, without a Spark job."""
        return self._local(rows, spark).rows

    def local_frame(self, rows: pa.Table, spark: Callable[[], SparkSession]) -> DataFrame:
        """The same as a local relation."""
        return self._local(rows, spark).frame

    def _local(self, rows: pa.Table, spark: Callable[[], SparkSession]) -> _Local:
        tables, injection = self.tables or {}, self.injection
        few = _Local(rows, spark)
        for modifier in self.modifiers:
            change_arrow = getattr(modifier, "change_arrow", None)
            if change_arrow is not None:
                few.rows = change_arrow(few.rows, tables)
            else:
                few.frame = modifier(few.frame, tables)
        if injection is not None and injection.judges:
            few.rows = injection.judged(few.rows)
        if injection is not None and injection.adds:
            few.frame = injection.with_columns(few.frame)
        return few


class _Local:
    """A few rows, as Arrow or as a local relation: the one is made of the other when it is asked for."""

    def __init__(self, rows: pa.Table, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark
        self._rows: pa.Table | None = rows
        self._frame: DataFrame | None = None

    @property
    def rows(self) -> pa.Table:
        """Collected without a job, if the frame is projections and filters."""
        if self._rows is None:
            assert self._frame is not None
            self._rows = _collected(self._frame)
        return self._rows

    @rows.setter
    def rows(self, rows: pa.Table) -> None:
        self._rows, self._frame = rows, None

    @property
    def frame(self) -> DataFrame:
        """In the caller's session."""
        if self._frame is None:
            assert self._rows is not None
            rows = (
                self._rows if self._rows.num_rows else self._rows.schema.empty_table()
            )  # PySpark needs a chunk
            self._frame = self._spark().createDataFrame(rows)
        return self._frame

    @frame.setter
    def frame(self, frame: DataFrame) -> None:
        self._rows, self._frame = None, frame


def _collected(frame: DataFrame) -> pa.Table:
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    # Collected as plain values: toArrow would be a job, and a timestamp would come in local time.
    schema = schema_of(frame.columns)
    collected = frame.withColumn("commit_ts", F.unix_micros("commit_ts")).collect()
    columns = {
        field.name: pa.array(
            [row[field.name] for row in collected],
            pa.int64() if field.name == "commit_ts" else field.type,
        )
        for field in schema
    }
    columns["commit_ts"] = columns["commit_ts"].cast(schema.field("commit_ts").type)
    return pa.table(columns, schema=schema)


def _touches(modifier: Modifier, table: TableVersion) -> bool:
    touches: Callable[[TableVersion], bool] | None = getattr(modifier, "touches", None)
    return touches is None or touches(table)
