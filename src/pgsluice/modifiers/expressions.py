"""
Spark SQL that users write over the columns of their tables: parsed by Spark, bound to typed values here.

An entry has the texts of its values in arrays, and entries of many tables are in one frame. So each column
that an expression names becomes a column of the frame with a name of its own, typed, which is NULL in rows of
other tables; and the names in the expression's text are replaced by these.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pgsluice.errors import ConfigError, UntypedValueError
from pgsluice.modifiers.transforms.sql import quoted
from pgsluice.schema.type_names import base_type
from pgsluice.schema.typed.choices import SpecialValues
from pgsluice.schema.typed.shape import shape_of
from pgsluice.schema.typed.spark_column import spark_column
from pgsluice.schema.typed.spark_rows import position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyspark.sql import Column, SparkSession

    from pgsluice.schema.table import PgType, TableVersion

Row = Literal["values", "old"]
"""The new values of an entry, or the old ones."""

# A value that has no typed form stops the run: as NULL it would be left out, or kept, without a word.
_STOP: Final = SpecialValues(dates="stop", timestamps="stop", decimals="stop", arrays="stop")
_UNSENT: Final = "names a large value that did not change and was not sent: set REPLICA IDENTITY FULL"
_OF_A_FRAME: Final = ("WindowExpression", "ScalarSubquery", "Exists", "InSubquery", "ListQuery")


# Functions that are named like columns.
_WITHOUT_BRACKETS: Final = (
    "current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "session_user",
    "user", "current_catalog", "current_schema", "current_database",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowExpression:
    """An expression over the columns of one row."""

    text: str
    names: tuple[tuple[int, int, str], ...]  # where columns stand in the text, from and to, in order

    @property
    def columns(self) -> set[str]:
        """The columns that it needs."""
        return {name for _, _, name in self.names}

    def bound(self, place: Callable[[str], str]) -> str:
        """The text with a column of the frame in place of each name."""
        parts, done = [], 0
        for start, end, name in self.names:
            parts += [self.text[done:start], f"`{place(name)}`"]
            done = end
        return "".join((*parts, self.text[done:]))


def parse(spark: SparkSession, text: str, columns: Collection[str], what: str) -> RowExpression:
    """Take an expression apart; a ConfigError that begins with ``what`` says what is wrong with it."""
    from pyspark.errors import ParseException

    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - the only way to Spark's own parser
    try:
        tree = parser.parseExpression(text)
    except ParseException as exc:
        raise ConfigError(f"{what} can't be parsed: {_first_line(exc)}", remedy="Write Spark SQL") from None
    nodes = list(nodes_of(tree))
    for node in nodes:
        if node.getClass().getSimpleName() in _OF_A_FRAME:
            raise ConfigError(f"{what} looks at other rows", remedy="Write it over the columns of one row")
    named = sorted(_names(text, nodes))
    for _, _, name in named:
        if name not in columns:  # the frame has columns beside those of the table, which are none of its
            nearest = difflib.get_close_matches(name, columns, n=1)
            raise ConfigError(
                f"{what} names {name}, which is no column of the table"
                + (f"; did you mean {nearest[0]}?" if nearest else ""),
                remedy="Name columns as the source does, in the same letters",
            )
    return RowExpression(text, tuple(named))


def nodes_of(tree: Any) -> Iterator[Any]:
    """An expression of Catalyst, and all that it is made of."""
    yield tree
    children = tree.children()
    for i in range(children.size()):
        yield from nodes_of(children.apply(i))


def _names(text: str, nodes: list[Any]) -> Iterator[tuple[int, int, str]]:
    """What is named like a column: by itself, or among the variables of a lambda, which go first."""
    found = []
    for node in nodes:
        kind = node.getClass().getSimpleName()
        if kind in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
            parts = [node.nameParts().apply(i) for i in range(node.nameParts().size())]
            start, end = node.origin().startIndex().get(), node.origin().stopIndex().get() + 1
            found.append((start, end, parts))
    # A variable's declaration has the place of the whole lambda.
    variables = {parts[0] for start, end, parts in found if text[start:end].strip("`") != ".".join(parts)}
    for start, end, parts in found:
        if parts[0] not in variables and parts[0].lower() not in _WITHOUT_BRACKETS:
            yield start, end, ".".join(parts)


def _first_line(exc: Exception) -> str:
    return next((line.strip() for line in str(exc).splitlines() if line.strip()), "").removesuffix(
        " SQLSTATE: 42601"
    )


class RowColumns:
    """The columns of one version's new or old rows, as expressions may name them."""

    def __init__(
        self,
        spark: SparkSession,
        version: TableVersion,
        row: Row,
        typed: dict[str, Column],
    ) -> None:
        self._spark = spark
        self._version = version
        self._row = row
        self._typed = typed  # of the frame: what is named is added to it

    def bind(self, text: str, what: str = "an expression") -> str:
        """The SQL of an expression, with columns of the frame in place of names."""
        names = {column.name: i for i, column in enumerate(self._version.columns)}
        asked = parse(self._spark, text, names, f"{what} of {self._version.qualified}")
        for name in asked.columns:
            place = self._place(names[name])
            if place not in self._typed:
                self._typed[place] = self._column(names[name])
        bound = asked.bound(lambda name: self._place(names[name]))
        return self._if_sent(bound, sorted(names[name] for name in asked.columns), what)

    def text(self, index: int, what: str) -> str:
        """The SQL of a column's text, as PostgreSQL writes it."""
        if self._row == "old":
            return f"get(coalesce(old, `values`), {index})"
        whole = f"if(array_contains(unchanged, {index}), get(old, {index}), get(`values`, {index}))"
        return self._if_sent(whole, [index], what)

    def _if_sent(self, sql: str, indexes: list[int], what: str) -> str:
        """The SQL behind a guard: nobody knows a large value that did not change and was not sent."""
        if self._row == "old" or not indexes:
            return sql
        unsent = [f"array_contains(unchanged, {i}) and get(old, {i}) is null" for i in indexes]
        message = f"{UntypedValueError.code}: {what} of {self._version.qualified} {_UNSENT}"
        return f"if({' or '.join(unsent)}, raise_error({quoted(message)}), {sql})"

    def _place(self, index: int) -> str:
        return f"__{self._row}_{self._version.id}_{index}"

    def _column(self, index: int) -> Column:
        """Typed, and NULL in rows of other tables."""
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        column = self._version.columns[index]
        own = F.col("relation") == self._version.id
        text = new_text(index) if self._row == "values" else old_text(index)
        return _typed(F.when(own, text), column.type, f"{self._version.qualified}.{column.name}", position())


def new_text(index: int) -> Column:
    """The text of a new value; the old one where it did not change and was not sent."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    unsent = F.array_contains(F.col("unchanged"), index)
    return F.when(unsent, F.get("old", F.lit(index))).otherwise(F.get("values", F.lit(index)))


def old_text(index: int) -> Column:
    """The text of an old value; a row without old values is one whose key did not change."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    return F.get(F.coalesce(F.col("old"), F.col("values")), F.lit(index))


def _typed(text: Column, type_: PgType, name: str, at: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    if base_type(type_).name != "numeric" or not shape_of(type_, _STOP).exact:
        return spark_column(text, type_, _STOP, name, at)
    # A numeric of any size is a text elsewhere, with which nobody could reckon.
    problem = F.raise_error(
        F.concat(
            F.lit(f"{UntypedValueError.code}: {name} has at "),
            at,
            F.lit(" a number that decimal(38, 18) does not hold"),
        )
    )
    return F.coalesce(text.try_cast("decimal(38, 18)"), F.when(text.isNotNull(), problem))
