"""Numbers, truth values and UUIDs that are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, model_validator

from pgsluice.modifiers.transforms.base import INTEGERS, Cell, Family, Generated, Uniqueness
from pgsluice.schema.type_names import NumericSize, base_type, display_name, numeric_size

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

_LARGEST: Final = {2: 2**15 - 1, 4: 2**31 - 1}
_FLOAT: Final = 3.4e38
_UUID_LENGTH: Final = 36


class Boolean(Generated):
    """True or false."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"boolean"})

    def sql(self, cell: Cell) -> str:
        """Heads or tails."""
        return f"if({cell.draw(self.generator).below(2)} = 0, 'f', 't')"


class Integer(Generated):
    """A whole number of a range."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"integer"})
    uniqueness: ClassVar[Uniqueness] = "likely"

    size: Literal[2, 4] = 4
    """Bytes of the number: bounds the range where it is not given."""

    min_value: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    """The lowest number."""

    max_value: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    """The highest number."""

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest number."""
        largest = _LARGEST[self.size]
        return (
            -largest - 1 if self.min_value is None else self.min_value,
            largest if self.max_value is None else self.max_value,
        )

    @model_validator(mode="after")
    def _a_range(self) -> Integer:
        lowest, highest = self.ends
        if not 0 <= highest - lowest < 2**60:
            raise ValueError("min_value must not be above max_value, nor 2^60 or more below it")
        return self

    def problem(self, type_: PgType) -> str | None:
        """The column must hold every number of the range."""
        while type_.base is not None:
            type_ = type_.base
        limit = 2 ** INTEGERS[type_.name]
        lowest, highest = self.ends
        if lowest < -limit or highest >= limit:
            return f"{type_.name} does not hold all numbers from {lowest} to {highest}"
        return None

    def outcomes(self, type_: PgType) -> float | None:
        """The numbers of the range."""
        lowest, highest = self.ends
        return highest - lowest + 1

    def sql(self, cell: Cell) -> str:
        """One of the range."""
        return f"cast({cell.draw(self.generator).between(*self.ends)} as string)"


class UnixTimestamp(Generated):
    """Seconds since 1970, of a range."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"integer"})
    uniqueness: ClassVar[Uniqueness] = "likely"

    min_value: int = Field(ge=0, lt=2**60)
    """The earliest."""

    max_value: int = Field(ge=0, lt=2**60)
    """The latest."""

    @model_validator(mode="after")
    def _a_range(self) -> UnixTimestamp:
        if self.min_value > self.max_value:
            raise ValueError("min_value must not be above max_value")
        return self

    def problem(self, type_: PgType) -> str | None:
        """The column must hold the latest."""
        while type_.base is not None:
            type_ = type_.base
        return (
            None
            if self.max_value < 2 ** INTEGERS[type_.name]
            else f"{type_.name} does not hold {self.max_value}"
        )

    def outcomes(self, type_: PgType) -> float | None:
        """The seconds of the range."""
        return self.max_value - self.min_value + 1

    def sql(self, cell: Cell) -> str:
        """One of the range."""
        return f"cast({cell.draw(self.generator).between(self.min_value, self.max_value)} as string)"


class Float(Generated):
    """A number with a fraction, of a range."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"float", "numeric"})
    uniqueness: ClassVar[Uniqueness] = "likely"

    min_value: float = Field(default=-_FLOAT, ge=-_FLOAT, le=_FLOAT)
    """The lowest number."""

    max_value: float = Field(default=_FLOAT, ge=-_FLOAT, le=_FLOAT)
    """The highest number."""

    precision: int = Field(default=2, ge=0, le=15)
    """Digits after the point."""

    @model_validator(mode="after")
    def _a_range(self) -> Float:
        if self.min_value > self.max_value:
            raise ValueError("min_value must not be above max_value")
        return self

    def _digits(self, type_: PgType) -> int:
        """Digits after the point, of which a numeric column may hold fewer."""
        size = _size(type_)
        return self.precision if size is None else min(self.precision, size.scale)

    def problem(self, type_: PgType) -> str | None:
        """The column must hold every number of the range."""
        size = _size(type_)
        if size is None:
            return None
        limit = 10.0 ** (size.precision - size.scale)
        ends = (round(end, self._digits(type_)) for end in (self.min_value, self.max_value))
        if any(abs(end) >= limit for end in ends):
            return f"the range goes beyond {display_name(type_)}"
        return None

    def outcomes(self, type_: PgType) -> float | None:
        """The numbers of the range, as far as a draw can tell them apart."""
        return min((self.max_value - self.min_value) * 10.0 ** self._digits(type_) + 1, 2.0**53)

    def sql(self, cell: Cell) -> str:
        """One of the range."""
        fraction = cell.draw(self.generator).fraction()
        number = f"({self.min_value!r}D + {self.max_value - self.min_value!r}D * {fraction})"
        return f"cast(round({number}, {self._digits(cell.type)}) as string)"


def _size(type_: PgType) -> NumericSize | None:
    bare = base_type(type_)
    return numeric_size(bare) if bare.name == "numeric" else None


class Uuid(Generated):
    """A UUID of version 4."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"uuid", "text"})
    uniqueness: ClassVar[Uniqueness] = "preserved"

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Digits and hyphens."""
        return _UUID_LENGTH, _UUID_LENGTH

    def sql(self, cell: Cell) -> str:
        """122 bits of a digest."""
        digest = cell.draw(self.generator).digest
        variant = f"translate(substr({digest}, 17, 1), '0123456789abcdef', '89ab89ab89ab89ab')"
        parts = (
            f"substr({digest}, 1, 8)",
            f"substr({digest}, 9, 4)",
            f"'4' || substr({digest}, 14, 3)",
            f"{variant} || substr({digest}, 18, 3)",
            f"substr({digest}, 21, 12)",
        )
        return f"concat_ws('-', {', '.join(parts)})"
