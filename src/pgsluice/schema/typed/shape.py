"""
The typed form of a PostgreSQL type: one shape for both engines, with its Spark type and Arrow type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from pgsluice.schema.type_names import base_type, element_type, numeric_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import DataType

    from pgsluice.schema.table import PgType
    from pgsluice.schema.typed.choices import SpecialValues, TimeChoice

Family = Literal[
    "bool", "int2", "int4", "int8", "float4", "float8", "decimal", "date", "timestamp", "timestamptz",
    "bytea", "array", "text",
]  # fmt: skip
"""How a value's text is read; ``text`` is kept as it is."""

MAX_PRECISION: Final = 38  # of decimals in Spark, Arrow's decimal128 and every lake format

_SAME_NAME: Final[Mapping[str, Family]] = {
    "bool": "bool",
    "int2": "int2",
    "int4": "int4",
    "int8": "int8",
    "float4": "float4",
    "float8": "float8",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "bytea": "bytea",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a column becomes."""

    family: Family
    precision: int = 0  # of a decimal
    scale: int = 0
    element: Shape | None = None  # of an array

    @property
    def exact(self) -> bool:
        """Whether every text fits."""
        return self.family == "text"

    @property
    def leaf(self) -> Shape:
        """The shape of the single values: the element's for an array, else this one."""
        return self.element or self

    def choice(self, choices: SpecialValues) -> TimeChoice:
        """What to do with a value that does not fit."""
        match self.family:
            case "date":
                return choices.dates
            case "timestamp" | "timestamptz":
                return choices.timestamps
            case "decimal":
                return choices.decimals
            case "array":
                return choices.arrays
            case _:
                return "null"


TEXT: Final = Shape("text")


def shape_of(column_type: PgType, choices: SpecialValues) -> Shape:
    """The shape of a type; whatever has no typed form of its own is text."""
    column_type = base_type(column_type)
    shape = _wanted_shape(column_type, choices)
    return TEXT if shape.choice(choices) == "string" else shape


def _wanted_shape(column_type: PgType, choices: SpecialValues) -> Shape:
    if column_type.kind == "array":
        element = element_type(column_type)
        return Shape("array", element=shape_of(element, choices)) if element else TEXT
    if column_type.kind != "base" or column_type.schema != "pg_catalog":
        return TEXT
    if column_type.name == "numeric":
        return _decimal_shape(column_type)
    return Shape(_SAME_NAME.get(column_type.name, "text"))


def _decimal_shape(numeric: PgType) -> Shape:
    size = numeric_size(numeric)
    if size is None or size.precision > MAX_PRECISION or not 0 <= size.scale <= size.precision:
        return TEXT
    return Shape("decimal", size.precision, size.scale)


_ARROW: Final[Mapping[Family, pa.DataType]] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "bytea": pa.binary(),
    "text": pa.string(),
}


def arrow_type(shape: Shape) -> pa.DataType:
    """The Arrow type, exactly the one that Spark demands for :func:`spark_type`."""
    if shape.family == "decimal":
        return pa.decimal128(shape.precision, shape.scale)
    if shape.element is not None:
        return pa.list_(pa.field("element", arrow_type(shape.element)))
    return _ARROW[shape.family]


def spark_type(shape: Shape) -> DataType:
    """The Spark type."""
    from pyspark.sql import types as t

    if shape.family == "decimal":
        return t.DecimalType(shape.precision, shape.scale)
    if shape.element is not None:
        return t.ArrayType(spark_type(shape.element))
    plain: Mapping[Family, Callable[[], DataType]] = {
        "bool": t.BooleanType,
        "int2": t.ShortType,
        "int4": t.IntegerType,
        "int8": t.LongType,
        "float4": t.FloatType,
        "float8": t.DoubleType,
        "date": t.DateType,
        "timestamp": t.TimestampNTZType,
        "timestamptz": t.TimestampType,
        "bytea": t.BinaryType,
        "text": t.StringType,
    }
    return plain[shape.family]()
