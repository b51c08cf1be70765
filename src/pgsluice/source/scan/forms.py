"""How a column is read in COPY's binary format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from pgsluice.schema.type_names import base_type

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType
    from pgsluice.schema.typed.shape import Shape

Form = Literal["number", "bool", "date", "time", "decimal", "text", "bytes", "uuid", "jsonb"]
"""How the bytes of a field are read."""

TypedColumn = tuple[pa.Array, pa.BooleanArray | None, pa.Array | None]
"""A column's values, which of them are not as they are in the table, and the texts of those at least."""

_BY_FAMILY: Final[dict[str, Form]] = {
    "bool": "bool",
    "int2": "number",
    "int4": "number",
    "int8": "number",
    "float4": "number",
    "float8": "number",
    "date": "date",
    "timestamp": "time",
    "timestamptz": "time",
    "decimal": "decimal",
    "bytea": "bytes",
}
_TEXTS: Final[dict[str, Form]] = {
    "text": "text",
    "varchar": "text",
    "bpchar": "text",
    "name": "text",
    "json": "text",
    "jsonb": "jsonb",
    "uuid": "uuid",
}


def form_of(column_type: PgType, shape: Shape) -> Form | None:
    """How a column that becomes ``shape`` is read in the binary format; None where only its text serves."""
    column_type = base_type(column_type)
    if shape.family != "text":
        return _BY_FAMILY.get(shape.family)
    if column_type.kind == "enum":
        return "text"
    return _TEXTS.get(column_type.name) if column_type.schema == "pg_catalog" else None
