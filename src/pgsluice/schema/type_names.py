"""
The name of a type the way PostgreSQL shows it: ``integer``, ``numeric(12,2)``, ``public.mood[]``.

Follows ``format_type()`` under an empty search path. Neighbours: :mod:`pgsluice.schema.table` has the
types, formats and sinks show the names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

_SQL_NAMES: Final = {
    "bit": "bit",
    "bool": "boolean",
    "bpchar": "character",
    "char": '"char"',
    "float4": "real",
    "float8": "double precision",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "numeric": "numeric",
    "varbit": "bit varying",
    "varchar": "character varying",
}
_ZONES: Final = {
    "time": ("time", " without time zone"),
    "timetz": ("time", " with time zone"),
    "timestamp": ("timestamp", " without time zone"),
    "timestamptz": ("timestamp", " with time zone"),
}
_HEADER: Final = 4  # VARHDRSZ: what the typmods of numeric and of the character types are shifted by
_FULL_PRECISION: Final = 0xFFFF  # an interval without a declared precision
_FULL_RANGE: Final = 0x7FFF  # an interval without declared fields
_INTERVAL_FIELDS: Final = {  # bits of the fields, as in PostgreSQL's utils/datetime.h
    1 << 2: " year",
    1 << 1: " month",
    1 << 3: " day",
    1 << 10: " hour",
    1 << 11: " minute",
    1 << 12: " second",
    1 << 2 | 1 << 1: " year to month",
    1 << 3 | 1 << 10: " day to hour",
    1 << 3 | 1 << 10 | 1 << 11: " day to minute",
    1 << 3 | 1 << 10 | 1 << 11 | 1 << 12: " day to second",
    1 << 10 | 1 << 11: " hour to minute",
    1 << 10 | 1 << 11 | 1 << 12: " hour to second",
    1 << 11 | 1 << 12: " minute to second",
}
_PLAIN_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")


class NumericSize(NamedTuple):
    """What ``numeric(precision, scale)`` was declared with."""

    precision: int
    scale: int  # negative or above the precision from PostgreSQL 15 on


def numeric_size(pg_type: PgType) -> NumericSize | None:
    """Precision and scale of a numeric type; None when it is unconstrained."""
    if pg_type.typmod < _HEADER:
        return None
    packed = pg_type.typmod - _HEADER
    scale = ((packed & 0x7FF) ^ 0x400) - 0x400  # eleven bits, signed
    return NumericSize(packed >> 16 & 0xFFFF, scale)


def base_type(pg_type: PgType) -> PgType:
    """What a domain stands for, down to a type that is none; the type itself otherwise."""
    while pg_type.kind == "domain" and pg_type.base is not None:
        pg_type = pg_type.base
    return pg_type


def element_type(pg_type: PgType) -> PgType | None:
    """The type of an array's elements, with the modifier that was declared for the array."""
    element = pg_type.element
    if element is not None and element.typmod < 0:
        return replace(element, typmod=pg_type.typmod)
    return element


def display_name(pg_type: PgType) -> str:
    """The type's name as PostgreSQL shows it."""
    element = element_type(pg_type)
    if pg_type.kind == "array" and element is not None:
        return display_name(element) + "[]"
    if pg_type.schema != "pg_catalog":
        return f"{_quoted(pg_type.schema)}.{_quoted(pg_type.name)}"
    return _builtin_name(pg_type)


def _builtin_name(pg_type: PgType) -> str:
    name, typmod = pg_type.name, pg_type.typmod
    if name in _ZONES:
        head, tail = _ZONES[name]
        return f"{head}({typmod}){tail}" if typmod >= 0 else head + tail
    if name == "interval":
        return _interval_name(typmod)
    if name == "numeric":
        size = numeric_size(pg_type)
        return f"numeric({size.precision},{size.scale})" if size else name
    if name in ("bpchar", "varchar") and typmod >= _HEADER:
        return f"{_SQL_NAMES[name]}({typmod - _HEADER})"
    if name in ("bit", "varbit") and typmod >= 0:
        return f"{_SQL_NAMES[name]}({typmod})"
    if name in ("bpchar", "bit"):
        # "character" and "bit" alone would mean a length of one
        return name if name == "bpchar" else '"bit"'
    return _SQL_NAMES.get(name) or _quoted(name)


def _interval_name(typmod: int) -> str:
    if typmod < 0:
        return "interval"
    precision, fields = typmod & 0xFFFF, typmod >> 16 & 0x7FFF
    text = "interval" if fields == _FULL_RANGE else "interval" + _INTERVAL_FIELDS.get(fields, "")
    return text if precision == _FULL_PRECISION else f"{text}({precision})"


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'
