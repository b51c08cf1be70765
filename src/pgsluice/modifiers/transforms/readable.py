"""Texts that rules give, as PostgreSQL would write them for a column's type: targets read no others."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from pgsluice.modifiers.transforms.base import INTEGERS, family
from pgsluice.schema.type_names import base_type, numeric_size

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

_TRUE: Final = ("t", "true", "y", "yes", "on", "1")
_FALSE: Final = ("f", "false", "n", "no", "off", "0")
_ENDLESS: Final = ("infinity", "-infinity")
_NUMBERS_ELSE: Final = {"nan": "NaN", "infinity": "Infinity", "-infinity": "-Infinity"}
_BYTEA: Final = re.compile(r"\\x([0-9a-fA-F]{2})*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def canonical(text: str, type_: PgType) -> str | None:
    """A text as PostgreSQL writes what it means for a type; None when it means nothing there."""
    given = text.strip()
    try:
        match family(type_):
            case "boolean":
                word = given.lower()
                return "t" if word in _TRUE else "f" if word in _FALSE else None
            case "integer":
                return _integer(given, type_)
            case "numeric":
                return _NUMBERS_ELSE.get(given.lower()) or _numeric(given, type_)
            case "float":
                return given if given.lower() in _NUMBERS_ELSE or float(given) is not None else None
            case "date":
                return given if given in _ENDLESS else dt.date.fromisoformat(given).isoformat()
            case "timestamp" | "timestamptz":
                return (
                    given if given in _ENDLESS else _moment(given, with_zone=family(type_) == "timestamptz")
                )
            case "uuid":
                return str(uuid.UUID(given))
            case "json":
                json.loads(text)
                return text
            case "bytea":
                return text if _BYTEA.fullmatch(text) else None
            case _:
                return text
    except (ValueError, InvalidOperation, OverflowError):
        return None


def _integer(text: str, type_: PgType) -> str | None:
    limit = 2 ** INTEGERS[base_type(type_).name]
    if not _INTEGER.fullmatch(text) or not -limit <= int(text) < limit:
        return None
    return str(int(text))


def _numeric(text: str, type_: PgType) -> str | None:
    number, size = Decimal(text), numeric_size(base_type(type_))
    if not number.is_finite():
        return None
    if size is None:
        return format(number, "f")
    rounded = number.quantize(Decimal(1).scaleb(-size.scale), ROUND_HALF_UP)
    if abs(rounded) >= Decimal(10) ** (size.precision - size.scale):
        return None
    return format(rounded, "f")


def _moment(text: str, *, with_zone: bool) -> str:
    """Sessions are pinned to UTC, so a moment without an offset is one there."""
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None) if with_zone else moment.replace(tzinfo=None)
    written = moment.isoformat(sep=" ")
    if moment.microsecond:
        written = written.rstrip("0")
    return written + "+00" if with_zone else written
