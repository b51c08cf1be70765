"""Texts that are made up, and choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field, SecretStr, model_validator

from pgsluice.modifiers.transforms.base import (
    Cell,
    Family,
    Generated,
    Generator,
    Nulls,
    Transform,
    Uniqueness,
)
from pgsluice.modifiers.transforms.readable import canonical
from pgsluice.schema.type_names import display_name

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

_TEXT: Final[frozenset[Family]] = frozenset({"text"})
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SYMBOLS: Final = _LETTERS + "0123456789"
_MOST: Final = 4096  # characters of a made-up text


def texts_of_range(symbols: int, shortest: int, longest: int) -> float:
    """As many as would be drawn with the same chance of a pair, when each length is as likely as another."""
    lengths = range(shortest, longest + 1)
    return len(lengths) ** 2 / sum(float(symbols) ** -length for length in lengths)


class Letters(Transform):
    """Letters by chance, as many as the value has characters."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    uniqueness: ClassVar[Uniqueness] = "likely"

    @property
    def is_deterministic(self) -> bool:
        """By chance."""
        return False

    @property
    def nulls(self) -> Nulls:
        """Letters can stand for anything."""
        return "never"

    def sql(self, cell: Cell) -> str:
        """As many letters."""
        return cell.draw("random").symbols(f"length({cell.value})", _LETTERS)


class Symbols(Generated):
    """Symbols, as many as a range says."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    uniqueness: ClassVar[Uniqueness] = "likely"

    symbols: str = Field(default=_SYMBOLS, min_length=1, max_length=1000)
    """What texts are made of."""

    min_length: int = Field(default=1, ge=0, le=_MOST)
    """The least number of symbols."""

    max_length: int = Field(default=100, ge=0, le=_MOST)
    """The highest number of symbols."""

    @model_validator(mode="after")
    def _a_range(self) -> Symbols:
        if self.min_length > self.max_length:
            raise ValueError("min_length must not be above max_length")
        return self

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Those of the range."""
        return self.min_length, self.max_length

    def outcomes(self, type_: PgType) -> float | None:
        """Of the shortest there are the fewest."""
        return texts_of_range(len(set(self.symbols)), self.min_length, self.max_length)

    def sql(self, cell: Cell) -> str:
        """A length, then symbols."""
        draw = cell.draw(self.generator)
        return draw.symbols(f"cast({draw.between(self.min_length, self.max_length)} as int)", self.symbols)


class Choice(Generated):
    """One of some texts."""

    families: ClassVar[frozenset[Family] | None] = None

    choices: tuple[str, ...] = Field(min_length=1)
    """The texts."""

    @property
    def may_be_cut(self) -> bool:
        """A choice that does not fit is a mistake."""
        return False

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Those of the choices."""
        return min(map(len, self.choices)), max(map(len, self.choices))

    def problem(self, type_: PgType) -> str | None:
        """The column's type must be able to read each."""
        wrong = [
            number for number, text in enumerate(self.choices, start=1) if canonical(text, type_) is None
        ]
        if wrong:
            return f"choice {wrong[0]} is no {display_name(type_)}, as PostgreSQL writes it"
        return None

    def sql(self, cell: Cell) -> str:
        """One of them, as PostgreSQL would write it."""
        written = tuple(canonical(text, cell.type) or text for text in self.choices)
        return cell.draw(self.generator).one_of(written)


class Seeded(Transform):
    """A transform that a seed makes deterministic; without one it goes by chance."""

    seed: SecretStr | None = None
    """With a seed the same value gives the same in its place."""

    @property
    def is_deterministic(self) -> bool:
        """With a seed."""
        return self.seed is not None

    @property
    def generator(self) -> Generator:
        """The word for it."""
        return "deterministic" if self.is_deterministic else "random"

    @property
    def nulls(self) -> Nulls:
        """It always has something to give."""
        return "never"

    @model_validator(mode="before")
    @classmethod
    def _number_as_text(cls, values: object) -> object:
        if isinstance(values, dict) and isinstance(values.get("seed"), int):
            return {**values, "seed": str(values["seed"])}
        return values

    def seed_bytes(self) -> bytes | None:
        """What keys the digest in place of the salt."""
        return self.seed.get_secret_value().encode() if self.seed else None


class SeededSymbols(Seeded):
    """Letters and digits, as many as a range says or as the value has."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    uniqueness: ClassVar[Uniqueness] = "likely"

    preserve_length: bool = False
    """As long as the value."""

    min_length: int = Field(default=1, ge=0, le=_MOST)
    """The least number of characters."""

    max_length: int = Field(default=100, ge=0, le=_MOST)
    """The highest number of characters."""

    @model_validator(mode="after")
    def _a_range(self) -> SeededSymbols:
        if self.min_length > self.max_length:
            raise ValueError("min_length must not be above max_length")
        return self

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Those of the range; those of values always fit."""
        return (0, None) if self.preserve_length else (self.min_length, self.max_length)

    def outcomes(self, type_: PgType) -> float | None:
        """Of the shortest there are the fewest: with the value's own length, values of one character."""
        shortest, longest = (1, 1) if self.preserve_length else (self.min_length, self.max_length)
        return texts_of_range(len(_SYMBOLS), shortest, longest)

    def sql(self, cell: Cell) -> str:
        """A length, then characters."""
        draw = cell.draw(self.generator, self.seed_bytes())
        drawn = f"cast({draw.between(self.min_length, self.max_length)} as int)"
        return draw.symbols(f"length({cell.value})" if self.preserve_length else drawn, _SYMBOLS)
