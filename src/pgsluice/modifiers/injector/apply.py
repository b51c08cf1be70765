"""
The modifier that gives each entry an identity and a version, as two columns beyond the envelope's own.

It comes after all others: identities are made of values as they leave. What happens to rows of tables without
identity holds for every target; the columns are added for those that ask for them.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import structlog

from pgsluice.changelog.envelope import (
    DELETE,
    IDENTITY,
    INSERT,
    SNAPSHOT,
    SPARK_ENVELOPE,
    UPDATE,
    VERSION,
)
from pgsluice.errors import ConfigError, WithoutIdentityError
from pgsluice.modifiers.expressions import RowColumns
from pgsluice.modifiers.injector.finders import default_identity
from pgsluice.modifiers.remembered import Remembered
from pgsluice.modifiers.transforms.sql import quoted
from pgsluice.schema.match import OWN_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from pgsluice.modifiers.injector.finders import IdentityFinder, VersionFinder
    from pgsluice.schema.table import TableVersion

WithoutIdentity = Literal["pass", "drop", "stop"]
"""What becomes of rows of tables without identity."""

logger = structlog.get_logger(__name__)

_PATIENCE: Final = 30.0  # seconds
_VERSION: Final = "the version"
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_NO_IDENTITY: Final = "cast(null as array<string>)"
_HAS_ROW: Final = f"op in ('{INSERT}', '{UPDATE}', '{SNAPSHOT}')"


class Injector:
    """
    Gives entries an identity and a version.

    Args:
        identity: gives the columns of a table's identity; by default the primary key, else the best unique
            index, else all columns under FULL.
        version: gives Spark SQL over a table's typed columns; by default, and for None, the version of an
            entry is its position, the LSN at which its transaction ends.
        without_identity: what becomes of rows of tables that have no identity.
    """

    def __init__(
        self,
        identity: IdentityFinder = default_identity,
        version: VersionFinder | None = None,
        without_identity: WithoutIdentity = "pass",
    ) -> None:
        self.identity = identity
        self.version = version
        self.without_identity = without_identity
        self._made = Remembered(lambda _: True, self._columns)

    def narrowed(self, version: TableVersion) -> TableVersion:
        """A version of whose rows the identity is known."""
        if version.schema == OWN_SCHEMA:
            return replace(version, naming=default_identity(version))
        chosen = self.identity(version) or ()
        names = [column.name for column in version.columns]
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise ConfigError(
                f"the identity of {version.qualified} names {unknown[0]}, which it has no column of",
                remedy="Let the finder of identities name columns that the version has",
                table=version.qualified,
            )
        return replace(version, naming=tuple(chosen))

    def with_columns(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The frame with identity and version; the versions are narrowed ones."""
        names, made = frame.columns, self._made.of(frame, tables)
        if made is None:  # messages alone
            made = {}, self._none()
        typed, added = made
        return frame.withColumns(typed).withColumns(added).select(*names, *added)

    def _columns(
        self, spark: SparkSession, versions: Sequence[TableVersion]
    ) -> tuple[dict[str, Column], dict[str, Column]]:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        typed: dict[str, Column] = {}
        identities = {version.id: _identity(version) for version in versions if version.naming}
        numbers = {
            version.id: made
            for version in versions
            if (made := self._version_of(spark, version, typed)) is not None
        }
        return typed, {
            IDENTITY: F.expr(_by_table(identities, _NO_IDENTITY)),
            VERSION: F.expr(_by_table(numbers, "end_lsn")),
        }

    def _none(self) -> dict[str, Column]:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        return {IDENTITY: F.expr(_NO_IDENTITY), VERSION: F.col("end_lsn")}

    def _version_of(self, spark: SparkSession, version: TableVersion, typed: dict[str, Column]) -> str | None:
        """The SQL of a table's versions; None where positions are meant."""
        if self.version is None or version.schema == OWN_SCHEMA:
            return None
        expression = self.version(version)
        if expression is None:
            return None
        new = RowColumns(spark, version, "values", typed).bind(expression, _VERSION)
        old = RowColumns(spark, version, "old", typed).bind(expression, _VERSION)
        made = f"case when {_HAS_ROW} then bigint({new}) when op = '{DELETE}' then bigint({old}) end"
        _require_integer(spark, version, typed, old)
        return made


class Injection:
    """
    What the injector does to the rows of one step.

    Args:
        injector: whose rules hold.
        tables: the versions of the rows, narrowed.
        adds: whether the target asks for the columns.
    """

    def __init__(self, injector: Injector, tables: Mapping[int, TableVersion], *, adds: bool) -> None:
        self._injector = injector
        self._tables = tables
        self.adds = adds
        self._keyless = {
            number: version.qualified
            for number, version in tables.items()
            if not version.naming and version.schema != OWN_SCHEMA
        }
        self._counts: dict[int, int] = {}  # by number of the version
        self._observed: Observation | None = None  # in their place, for rows that tasks have seen

    def __bool__(self) -> bool:
        return self.adds or self.judges

    @property
    def drops(self) -> bool:
        """Whether rows without identity end here."""
        return self._injector.without_identity == "drop"

    @property
    def judges(self) -> bool:
        """Whether there may be rows that are counted, dropped or refused."""
        return bool(self._keyless) and (self.adds or self._injector.without_identity != "pass")

    def counted(self) -> dict[str, int]:
        """How many rows without identity the last reading had, by table."""
        counts = self._counts if self._observed is None else _observed(self._observed)
        found: dict[str, int] = {}
        for number, count in counts.items():
            found[self._keyless[number]] = found.get(self._keyless[number], 0) + count
        return {table: count for table, count in found.items() if count}

    def apply(self, frame: DataFrame) -> DataFrame:
        """The rows of a frame that tasks read."""
        frame = self._judged(frame) if self.judges else frame
        return self.with_columns(frame) if self.adds else frame

    def with_columns(self, frame: DataFrame) -> DataFrame:
        """The frame with identity and version."""
        return self._injector.with_columns(frame, self._tables)

    def judged(self, rows: pa.Table) -> pa.Table:
        """Rows on the driver, without those that end here; raises for those that must not come."""
        import pyarrow as pa
        import pyarrow.compute as pc

        keyless = pc.is_in(rows["relation"], pa.array(self._keyless, pa.int32()))
        found = rows["relation"].filter(keyless).value_counts().to_pylist()
        if found and self._injector.without_identity == "stop":
            raise _refused(self._keyless[found[0]["values"]])
        self._counts = {each["values"]: each["counts"] for each in found}
        self._observed = None
        return rows.filter(pc.invert(keyless)) if self.drops else rows

    def _judged(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        if self._injector.without_identity == "stop":
            errors = {
                number: f"raise_error({quoted(f'{WithoutIdentityError.code}: {_refused(table)}')})"
                for number, table in self._keyless.items()
            }
            return frame.where(F.expr(_by_table(errors, "true")))
        self._observed = Observation()
        relation = F.col("relation")
        counts = [F.count_if(relation == number).alias(str(number)) for number in self._keyless]
        frame = frame.observe(self._observed, *counts)
        return frame.where(relation.isNull() | ~relation.isin(*self._keyless)) if self.drops else frame


def _observed(observation: Observation) -> dict[int, int]:
    """
    What tasks have counted, by number of the version.

    It comes by Spark's bus of events, which under load may lose some, and then would be waited for in vain.
    """
    found: dict[int, int] = {}

    def wait() -> None:
        found.update({int(number): count for number, count in observation.get.items()})

    waiting = threading.Thread(target=wait, name="rows without identity", daemon=True)
    waiting.start()
    waiting.join(_PATIENCE)
    if waiting.is_alive():
        logger.warning("rows without identity were not counted: Spark does not say how many there were")
        return {}
    return found


def _by_table(made: Mapping[int, str], other: str) -> str:
    cases = " ".join(f"when {number} then {text}" for number, text in made.items())
    return f"case relation {cases} else {other} end" if cases else other


def _identity(version: TableVersion) -> str:
    """The texts of the identity's columns: of the new row, or of the old one where there is no other."""
    places = {column.name: place for place, column in enumerate(version.columns)}
    texts = [
        f"if(op = '{DELETE}' or array_contains(unchanged, {i}), get(old, {i}), get(`values`, {i}))"
        for i in map(places.__getitem__, version.naming)
    ]
    return f"if({_HAS_ROW} or op = '{DELETE}', array({', '.join(texts)}), null)"


def _require_integer(
    spark: SparkSession, version: TableVersion, typed: Mapping[str, Column], expression: str
) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    what, remedy = f"{_VERSION} of {version.qualified}", "Write Spark SQL that makes an integer"
    try:
        empty = spark.createDataFrame([], SPARK_ENVELOPE).withColumns(dict(typed))
        kind = empty.select(F.expr(expression)).schema[0].dataType.simpleString()
    except AnalysisException as exc:
        raise ConfigError(f"{what} does not fit the table: {exc.getCondition()}", remedy=remedy) from exc
    if kind not in _INTEGERS:
        raise ConfigError(f"{what} makes a value of type {kind}", remedy=remedy, table=version.qualified)


def _refused(table: str) -> WithoutIdentityError:
    return WithoutIdentityError(
        f"a row of {table} has come, and the table has no identity",
        remedy="Give it a primary key, name its columns under modifiers.injector.identity, or let such rows "
        "pass or drop by without_identity",
        table=table,
    )
