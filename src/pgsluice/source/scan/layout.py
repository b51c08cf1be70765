"""The columns of a read: the table's own, typed as in the stream, and those that say more of a row."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pgsluice.errors import ConfigError, TableChangedError
from pgsluice.schema.type_names import base_type, display_name
from pgsluice.schema.typed.layout import ABOUT_FIELDS
from pgsluice.schema.typed.shape import arrow_type, shape_of
from pgsluice.source.scan.forms import form_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructField, StructType

    from pgsluice.schema.typed.choices import SpecialValues
    from pgsluice.schema.typed.shape import Shape
    from pgsluice.source.scan.forms import Form
    from pgsluice.source.scan.table import ScannedColumn, ScannedTable

UNTYPED: Final = "_untyped"

_ABOUT: Final = {field.name: field for field in ABOUT_FIELDS}
_WITH_MISFITS: Final = ("date", "timestamp", "timestamptz", "decimal", "array")


@dataclass(frozen=True, slots=True)
class ReadColumn:
    """A column of the table that is read."""

    name: str
    type_oid: int  # of what a domain stands for, as answers of the server name it
    shape: Shape
    form: Form | None  # in COPY's binary format


def table_columns(
    table: ScannedTable, chosen: Sequence[str] | None, special: SpecialValues, *, about: bool = False
) -> pa.Schema:
    """
    The columns of a read.

    Args:
        table: what is read.
        chosen: names of columns; None for all.
        special: what becomes of values that a typed column can't hold.
        about: whether all columns of a stream's rows stand beside them. Otherwise there is ``_untyped``
            alone, and only where a chosen column could need it.
    """
    columns = _named(table, chosen)
    shapes = [shape_of(column.type, special) for column in columns]
    own = [pa.field(c.name, arrow_type(shape)) for c, shape in zip(columns, shapes, strict=True)]
    added: list[pa.Field] = []
    if about:
        added = list(ABOUT_FIELDS)
    elif any(_may_misfit(shape, special) for shape in shapes):
        added = [_ABOUT[UNTYPED]]
    _require_free(table, columns, [field.name for field in added])
    return pa.schema([*own, *added])


def read_columns(table: ScannedTable, schema: StructType, special: SpecialValues) -> tuple[ReadColumn, ...]:
    """The table's columns that a read's schema names; raises when the table has not, or no longer, these."""
    own = {column.name: column for column in table.columns}
    found = []
    for field in schema.fields:
        if field.name in own:
            column = own[field.name]
            shape = shape_of(column.type, special)
            _require_type(table, field, arrow_type(shape), display_name(column.type))
            found.append(
                ReadColumn(column.name, base_type(column.type).oid, shape, form_of(column.type, shape))
            )
        elif field.name in _ABOUT:
            _require_type(table, field, _ABOUT[field.name].type, "what pgsluice adds to a row")
        else:
            raise _other_columns(table, f"has no column {field.name}")
    return tuple(found)


def arrow_schema(schema: StructType, columns: Sequence[ReadColumn]) -> pa.Schema:
    """The Arrow schema of a read's batches: exactly what Spark demands for its own."""
    own = {column.name: arrow_type(column.shape) for column in columns}
    return pa.schema(
        [
            pa.field(
                field.name,
                own[field.name] if field.name in own else _ABOUT[field.name].type,
                nullable=field.nullable,
            )
            for field in schema.fields
        ]
    )


def _may_misfit(shape: Shape, special: SpecialValues) -> bool:
    """Whether a typed column may be NULL, or clamped, where the table has a value."""
    return any(
        each.family in _WITH_MISFITS and each.choice(special) != "stop" for each in (shape, shape.leaf)
    )


def _named(table: ScannedTable, chosen: Sequence[str] | None) -> Sequence[ScannedColumn]:
    if chosen is None:
        return table.columns
    own = {column.name: column for column in table.columns}
    for name in chosen:
        if name not in own:
            nearest = difflib.get_close_matches(name, own, n=1, cutoff=0.5)
            hint = f", did you mean {nearest[0]}?" if nearest else ""
            raise ConfigError(
                f"{table.qualified} has no column {name}{hint}",
                remedy=f"There are: {', '.join(own)}",
                table=table.qualified,
                column=name,
            )
    return [own[name] for name in dict.fromkeys(chosen)]


def _require_free(table: ScannedTable, columns: Sequence[ScannedColumn], added: Sequence[str]) -> None:
    for column in columns:
        if column.name.lower() in added:
            raise ConfigError(
                f"the column {column.name} of {table.qualified} has a name that pgsluice needs itself",
                remedy='Choose others with .option("columns", ...), or "string" or "stop" for special values',
                table=table.qualified,
                column=column.name,
            )


def _require_type(table: ScannedTable, field: StructField, wanted: pa.DataType, shown: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_type

    kind = from_arrow_type(wanted, prefer_timestamp_ntz=True)
    if field.dataType != kind:
        raise _other_columns(
            table,
            f"has the column {field.name} as {kind.simpleString()} ({shown}), "
            f"not as {field.dataType.simpleString()}",
        )


def _other_columns(table: ScannedTable, problem: str) -> TableChangedError:
    return TableChangedError(
        f"{table.qualified} {problem}",
        remedy="Load the table again if it was changed; mend .schema(...) if you gave one; where the log of "
        'a pipeline has older columns than the table, use .option("columns", "*")',
        table=table.qualified,
    )
