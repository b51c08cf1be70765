"""The modifier that rules make: Spark SQL over ``values`` and ``old`` alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.errors import TransformError
from pgsluice.modifiers.expressions import Row, RowColumns
from pgsluice.modifiers.remembered import Remembered
from pgsluice.modifiers.transformer.described import DescribedRules
from pgsluice.modifiers.transforms.base import ArrowTransform, Cell, longest
from pgsluice.modifiers.transforms.sql import quoted
from pgsluice.schema.match import OWN_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from pgsluice.modifiers.transformer.reach import Reach
    from pgsluice.modifiers.transformer.rules import ColumnRule, Transformations
    from pgsluice.modifiers.transforms.lookup import Lookups
    from pgsluice.schema.entry import Definition, SchemaEntry
    from pgsluice.schema.table import PgType, TableVersion

_ROWS: Final[tuple[Row, ...]] = ("values", "old")

_POSITION: Final = (
    "concat(hex(shiftrightunsigned(commit_lsn, 32)), '/', hex(commit_lsn & 4294967295), ' change ', seq)"
)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Expressions for some table versions, made once."""

    typed: dict[str, Column]  # what users' expressions name
    rows: dict[str, Column]


class Transformer:
    """Changes the values of columns that have rules, wherever they stand in an entry."""

    def __init__(
        self,
        rules: Transformations,
        salt: Callable[[], bytes],
        reach: Reach,
        lookups: Lookups,
    ) -> None:
        self._rules = rules
        self._salt = salt
        self.reach = reach
        self.lookups = lookups
        self._described = DescribedRules(reach)
        self._made = Remembered(self.touches, self._columns)
        self._age = 0  # of the rules that it was made by

    def touches(self, version: TableVersion) -> bool:
        """Whether a table has rules."""
        if version.schema == OWN_SCHEMA:  # changes of the schema: what is in them is seen to by itself
            return False
        return self.reach.rules_of(version) is not None or self._rules.is_strict(None)

    @property
    def changes_values(self) -> bool:
        """Whether there are values that must not leave."""
        return self._rules.changes_values

    def learn_entry(self, entry: SchemaEntry) -> set[int]:
        """Learn from a change of the schema; gives tables whose rows have to be copied anew for it."""
        return self.reach.learn_entry(entry) | self._described.filled(entry)

    def require_rules(self, oid: int, of: Definition) -> None:
        """Raise when a table gets a column that has no rule and must: before anything of it leaves."""
        name, columns = (of["schema"], of["name"]), {each["name"]: each["number"] for each in of["columns"]}
        if self._rules.is_strict(self.reach.learn(oid, name, columns)):
            ruled = self.reach.by_number(oid, name, columns)
            added = [each for each in of["columns"] if "generated" not in each]
            _require_all(".".join(name), [each["name"] for each in added if each["number"] not in ruled])

    def entry_without(self, entry: SchemaEntry) -> SchemaEntry:
        """A change of the schema without values of columns that are changed."""
        return self._described.without_values(entry)

    def __call__(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The frame with changed values."""
        if self._age != self.reach.age:
            self._made, self._age = Remembered(self.touches, self._columns), self.reach.age
        made, names = self._made.of(frame, tables), frame.columns
        if made is None:
            return frame
        changed = frame.withColumns(made.typed) if made.typed else frame
        return changed.withColumns(made.rows).select(*names)

    def _columns(self, spark: SparkSession, touched: tuple[TableVersion, ...]) -> _Columns:
        from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

        typed: dict[str, Column] = {}

        def of_all(row: Row) -> str:
            cases = [
                f"when {each.id} then {self._row(each, row, RowColumns(spark, each, row, typed))}"
                for each in touched
            ]
            return f"case relation {' '.join(cases)} else `{row}` end"

        rows: dict[str, Column] = {row: F.expr(of_all(row)) for row in _ROWS}
        return _Columns(typed, rows)

    def _row(self, version: TableVersion, row: str, typed: RowColumns) -> str:
        rules = self.reach.of_columns(version)
        if self._rules.is_strict(self.reach.rules_of(version)):
            _require_rules(version, rules)
        cells = [_value(row, i) for i in range(len(version.columns))]
        changed = [self._changed(version, i, rules.get(i), row, typed) for i in range(len(version.columns))]
        if changed == cells:
            return f"`{row}`"
        return f"if(`{row}` is null, null, array({', '.join(changed)}))"

    def _changed(
        self, version: TableVersion, index: int, rule: ColumnRule | None, row: str, typed: RowColumns
    ) -> str:
        value = _value(row, index)
        if rule is None or isinstance(rule.transform, ArrowTransform):
            return value
        column, transform = version.columns[index], rule.transform
        parameters = _parameters(version, rule, typed)
        cell = Cell(value, column.type, self._salt(), parameters, typed.bind, self.lookups.values)
        made = transform.sql(cell)
        if made == value:
            return value
        made, may_lack = _fitted(made, rule, column.type)
        nulls = transform.nulls
        if (
            may_lack
            or nulls == "failure"
            or (nulls == "result" and not self.reach.takes_null(version, index))
        ):
            made = self._or_else(made, value, f"{version.qualified}.{column.name}", rule.name)
        return f"if({value} is null, null, {made})"

    def _or_else(self, made: str, value: str, column: str, name: str) -> str:
        match self._rules.on_error:
            case "null":
                return made
            case "pass_through":
                return f"coalesce({made}, {value})"
            case _:
                begin, end = (
                    quoted(f"{TransformError.code}: {column} has at "),
                    quoted(f" a value that {name} can't change"),
                )
                return f"coalesce({made}, raise_error(concat({begin}, {_POSITION}, {end})))"


def _require_rules(version: TableVersion, ruled: Mapping[int, ColumnRule]) -> None:
    """Raise when a column has no rule: no value of it may leave."""
    _require_all(
        version.qualified, [column.name for i, column in enumerate(version.columns) if i not in ruled]
    )


def _require_all(table: str, missing: Sequence[str]) -> None:
    if missing:
        raise TransformError(
            f"{table} has columns without a rule, and validation is strict: {', '.join(missing)}",
            remedy="Add rules for them, noop to let values go as they are, and start again",
            table=table,
        )


def _fitted(made: str, rule: ColumnRule, type_: PgType) -> tuple[str, bool]:
    """A text that its column can hold, and whether it is NULL where the text is too long to be cut."""
    most, transform = longest(type_), rule.transform
    if most is None:
        return made, False
    if transform.may_be_cut:
        return f"left({made}, {most})", False
    greatest = None if rule.sources else transform.lengths[1]
    if greatest is not None and greatest <= most:
        return made, False
    # A lambda names the text, which would else be made twice, and by chance not the same.
    return f"get(transform(array({made}), m -> if(length(m) > {most}, null, m)), 0)", True


def _value(row: str, index: int) -> str:
    return f"get(`{row}`, {index})"


def _parameters(version: TableVersion, rule: ColumnRule, typed: RowColumns) -> dict[str, str]:
    places = {column.name: i for i, column in enumerate(version.columns)}
    for source in rule.sources.values():
        if source not in places:
            raise TransformError(
                f"{version.qualified} has no column {source}, which a rule takes a parameter from",
                remedy="Name another column in dynamic_parameters, and start again",
                table=version.qualified,
            )
    # NULL is one more value: what is drawn must not become NULL for it.
    return {
        name: f"coalesce({typed.text(places[source], f'the rule {rule.name}')}, '')"
        for name, source in rule.sources.items()
    }
