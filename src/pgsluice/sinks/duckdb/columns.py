"""
What a column of PostgreSQL is in DuckDB, and the one SQL expression that makes its value from text.

Exact or not at all: a type whose every value DuckDB can't hold, or not print again as it was, is VARCHAR
with PostgreSQL's own text. An expression never turns a value into another one silently; where DuckDB's
plain cast would (it reads ``0044-03-15 10:00:00 BC`` as the year 44 of our era), it is guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.schema.type_names import base_type, element_type, numeric_size

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

Expression = Callable[[str], str]
"""From the SQL of a text cell to the SQL of its value."""

TEXT: Final = "VARCHAR"
MAX_DECIMAL_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A DuckDB type, named as DuckDB's catalog names it."""

    name: str
    value: Expression


def _cast(name: str) -> ColumnType:
    return ColumnType(name, lambda cell: f"CAST({cell} AS {name})")


def _with_era(name: str) -> ColumnType:
    """Dates and times: PostgreSQL has the era at the end, DuckDB after the date. Years BC have 4 digits."""

    def value(cell: str) -> str:
        moved = f"left({cell}, 10) || ' (BC)' || substring({cell}, 11, length({cell}) - 13)"
        return f"CAST(CASE WHEN suffix({cell}, ' BC') THEN {moved} ELSE {cell} END AS {name})"

    return ColumnType(name, value)


AS_TEXT: Final = ColumnType(TEXT, lambda cell: cell)

_BY_NAME: Final = {
    "bool": _cast("BOOLEAN"),
    "int2": _cast("SMALLINT"),
    "int4": _cast("INTEGER"),
    "int8": _cast("BIGINT"),
    "float4": _cast("FLOAT"),
    "float8": _cast("DOUBLE"),
    "uuid": _cast("UUID"),
    "date": _with_era("DATE"),
    "timestamp": _with_era("TIMESTAMP"),
    "timestamptz": _with_era("TIMESTAMP WITH TIME ZONE"),
    "time": _cast("TIME"),
    "timetz": _cast("TIME WITH TIME ZONE"),
    "json": _cast("JSON"),
    "jsonb": _cast("JSON"),
    "bytea": ColumnType("BLOB", lambda cell: f"unhex(substring({cell}, 3))"),
}


def column_type(pg_type: PgType, *, lists: bool) -> ColumnType:
    """The DuckDB type for a PostgreSQL type; with ``lists``, arrays of known types are lists."""
    pg_type = base_type(pg_type)
    if pg_type.kind == "array":
        element = element_type(pg_type)
        return _list_of(element) if lists and element is not None else AS_TEXT
    if pg_type.schema != "pg_catalog":
        return AS_TEXT
    if pg_type.name == "numeric":
        return _decimal(pg_type)
    return _BY_NAME.get(pg_type.name, AS_TEXT)


def _decimal(pg_type: PgType) -> ColumnType:
    size = numeric_size(pg_type)
    if size is None or not 0 <= size.scale <= size.precision <= MAX_DECIMAL_DIGITS:
        return AS_TEXT
    return _cast(f"DECIMAL({size.precision},{size.scale})")


_ELEMENTS: Final = r"""'"(?:[^"\\]|\\(?s:.))*"|[^",{}]+'"""
"""Elements of a one-dimensional array: in quotes with escapes, or plain."""


def _list_of(element: PgType) -> ColumnType:
    if base_type(element).name == "box":
        return AS_TEXT  # the one type whose elements are separated by semicolons
    inner = column_type(element, lists=False)

    def value(cell: str) -> str:
        unquoted = r"regexp_replace(e[2:-2], '(?s)\\(.)', '\1', 'g')"
        text = f"(CASE WHEN e = 'NULL' THEN NULL WHEN e[1] = '\"' THEN {unquoted} ELSE e END)"
        elements = f"list_transform(regexp_extract_all({cell}, {_ELEMENTS}), lambda e: {inner.value(text)})"
        # PostgreSQL's text is never a list of DuckDB's, so this cast fails, and that is what it is for
        refused = f"CAST({cell} AS {inner.name}[])"
        is_flat = f"{cell}[1] = '{{' AND {cell}[2] <> '{{'"
        return f"CASE WHEN {is_flat} THEN {elements} WHEN {cell} IS NOT NULL THEN {refused} END"

    return ColumnType(f"{inner.name}[]", value)
