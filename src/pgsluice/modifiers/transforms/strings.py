"""Texts that are made up, and choices."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field, SecretStr, model_validator

from pgsluice.modifiers.transforms.base import Cell, Family, Generated, Generator, Transform, Uniqueness

_TEXT: Final[frozenset[Family]] = frozenset({"text"})
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SYMBOLS: Final = _LETTERS + "0123456789"
_MOST: Final = 4096  # characters of a made-up text


class Letters(Transform):
    """Letters by chance, as many as the value has characters."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    uniqueness: ClassVar[Uniqueness] = "likely"

    @property
    def is_deterministic(self) -> bool:
        """By chance."""
        return False

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

    def sql(self, cell: Cell) -> str:
        """A length, then symbols."""
        draw = cell.draw(self.generator)
        return draw.symbols(f"cast({draw.between(self.min_length, self.max_length)} as int)", self.symbols)


class Choice(Generated):
    """One of some texts."""

    families: ClassVar[frozenset[Family] | None] = None

    choices: tuple[str, ...] = Field(min_length=1)
    """The texts."""

    def sql(self, cell: Cell) -> str:
        """One of them."""
        return cell.draw(self.generator).one_of(self.choices)


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

    def sql(self, cell: Cell) -> str:
        """A length, then characters."""
        draw = cell.draw(self.generator, self.seed_bytes())
        drawn = f"cast({draw.between(self.min_length, self.max_length)} as int)"
        return draw.symbols(f"length({cell.value})" if self.preserve_length else drawn, _SYMBOLS)
