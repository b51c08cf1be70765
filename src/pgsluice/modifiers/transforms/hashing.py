"""Digests, and values made coarser."""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from pgsluice.modifiers.transforms.base import Cell, Family, Nulls, Transform, Uniqueness, family
from pgsluice.modifiers.transforms.sql import hmac_sha256
from pgsluice.modifiers.transforms.times import as_text, time_of

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

_DIGITS = 64


class Hash(Transform):
    """The HMAC-SHA256 of the value, in hexadecimal digits."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"text", "bytea"})
    uniqueness: ClassVar[Uniqueness] = "preserved"

    length: int = Field(default=_DIGITS, ge=1, le=_DIGITS)
    """How many of the 64 digits are kept; under 32 values may meet."""

    @property
    def mostly_keeps_values_apart(self) -> bool:
        """By all that is known of SHA-256, 32 digits do."""
        return self.length >= _DIGITS // 2

    @property
    def nulls(self) -> Nulls:
        """Every value has a digest."""
        return "never"

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Digits."""
        return self.length, self.length

    def sql(self, cell: Cell) -> str:
        """Digits; for bytea as its bytes."""
        digits = f"substr({hmac_sha256(cell.key, cell.value)}, 1, {self.length})"
        return f"'\\\\x' || {digits}" if family(cell.type) == "bytea" else digits


class Truncate(Transform):
    """The first characters of a text; a time or a date without its smaller parts."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"text", "date", "timestamp", "timestamptz"})

    length: int | None = Field(default=None, ge=0)
    """For texts: how many characters stay."""

    part: Literal["year", "quarter", "month", "week", "day", "hour", "minute", "second"] | None = None
    """For times and dates: the smallest part that stays."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Truncate:
        if (self.length is None) == (self.part is None):
            raise ValueError("give length, for texts, or part, for times and dates")
        return self

    def problem(self, type_: PgType) -> str | None:
        """The parameter must be that of the type."""
        if family(type_) == "text":
            return None if self.length is not None else "a text needs length"
        return None if self.part is not None else "a time or a date needs part"

    def sql(self, cell: Cell) -> str:
        """The left side, or the time at which its part began."""
        if self.length is not None:
            return f"left({cell.value}, {self.length})"
        return as_text(f"date_trunc('{self.part}', {time_of(cell)})", cell)


class Bucket(Transform):
    """The lower end of the range in which a number lies: 37 with size 10 is 30."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"integer", "numeric", "float"})

    size: Decimal = Field(gt=0)
    """How wide a range is."""

    def problem(self, type_: PgType) -> str | None:
        """Whole numbers need a whole size."""
        if family(type_) == "integer" and self.size != int(self.size):
            return "a column of whole numbers needs a whole size"
        return None

    def sql(self, cell: Cell) -> str:
        """Rounded down to a multiple of the size."""
        if family(cell.type) == "integer":
            size = int(self.size)
            number = f"cast({cell.value} as bigint)"
            return f"cast(try_subtract({number}, pmod({number}, {size})) as string)"
        width = f"cast({self.size} as decimal(38, 10))"
        return (
            f"cast(floor(try_divide(try_cast({cell.value} as decimal(38, 10)), {width})) * {width} as string)"
        )
