"""Numbers, truth values and UUIDs that are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, model_validator

from pgsluice.modifiers.transforms.base import INTEGERS, Cell, Family, Generated, Uniqueness

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

_LARGEST: Final = {2: 2**15 - 1, 4: 2**31 - 1}
_FLOAT: Final = 3.4e38


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

    def sql(self, cell: Cell) -> str:
        """One of the range."""
        fraction = cell.draw(self.generator).fraction()
        number = f"({self.min_value!r}D + {self.max_value - self.min_value!r}D * {fraction})"
        return f"cast(round({number}, {self.precision}) as string)"


class Uuid(Generated):
    """A UUID of version 4."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"uuid", "text"})
    uniqueness: ClassVar[Uniqueness] = "preserved"

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
