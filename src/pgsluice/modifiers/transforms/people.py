"""Names of people that are made up, from the lists of the Faker library."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, Final, Literal

from pydantic import Field

from pgsluice.modifiers.transforms.base import Cell, Family, Generated
from pgsluice.modifiers.transforms.sql import Draw, array_of, quoted
from pgsluice.modifiers.transforms.strings import Seeded

Gender = Literal["Male", "Female", "Any"]

_TEXT: Final[frozenset[Family]] = frozenset({"text"})
_MOST: Final = 512  # of a list: an expression holds all of them


@cache
def first_names(gender: Gender = "Any") -> tuple[str, ...]:
    """First names, the more usual ones first."""
    from faker.providers.person.en_US import Provider

    lists = {"Male": Provider.first_names_male, "Female": Provider.first_names_female}
    chosen = [lists[gender]] if gender in lists else list(lists.values())
    return tuple(dict.fromkeys(name for names in chosen for name in list(names)[: _MOST // len(chosen)]))


@cache
def last_names() -> tuple[str, ...]:
    """Last names, the more usual ones first."""
    from faker.providers.person.en_US import Provider

    return tuple(dict.fromkeys(list(Provider.last_names)[:_MOST]))


class FirstName(Generated):
    """A first name."""

    families: ClassVar[frozenset[Family] | None] = _TEXT
    dynamic: ClassVar[frozenset[str]] = frozenset({"gender"})

    gender: Gender = "Any"
    """Male, Female or Any; another column may say it."""

    def sql(self, cell: Cell) -> str:
        """One of the list."""
        draw = cell.draw(self.generator)
        given = cell.parameters.get("gender")
        if given is None:
            return draw.one_of(first_names(self.gender))
        male, female = draw.one_of(first_names("Male")), draw.one_of(first_names("Female"))
        either = draw.one_of(first_names())
        return f"case lower({given}) when 'male' then {male} when 'female' then {female} else {either} end"


class _SeededName(Seeded):
    """A name of a bounded length."""

    families: ClassVar[frozenset[Family] | None] = _TEXT

    preserve_length: bool = False
    """As long as the value, where the lists have such a name."""

    max_length: int = Field(default=100, ge=1)
    """Longer ones are cut."""

    def _fitted(self, draw: Draw, names: tuple[str, ...], value: str, at: int = 0) -> str:
        if not self.preserve_length:
            return f"left({draw.one_of(names, at)}, {self.max_length})"
        lengths: dict[int, list[str]] = {}
        for name in names:
            lengths.setdefault(len(name), []).append(name)
        by_length = ", ".join(
            f"{length}, {array_of(tuple(found))}" for length, found in sorted(lengths.items())
        )
        fitting = f"map({by_length})[length({value})]"
        one = f"get({fitting}, cast({draw.below(f'size({fitting})', at)} as int))"
        cut = f"rpad(left({draw.one_of(names, at)}, length({value})), length({value}), {quoted('a')})"
        return f"left(if({fitting} is null, {cut}, {one}), {self.max_length})"


class SeededFirstName(_SeededName):
    """A first name."""

    def sql(self, cell: Cell) -> str:
        """One of the list."""
        return self._fitted(cell.draw(self.generator, self.seed_bytes()), first_names(), cell.value)


class SeededLastName(_SeededName):
    """A last name."""

    def sql(self, cell: Cell) -> str:
        """One of the list."""
        return self._fitted(cell.draw(self.generator, self.seed_bytes()), last_names(), cell.value)


class SeededFullName(_SeededName):
    """A first and a last name."""

    def sql(self, cell: Cell) -> str:
        """One of each list."""
        draw = cell.draw(self.generator, self.seed_bytes())
        whole = f"concat_ws(' ', {draw.one_of(first_names())}, {draw.one_of(last_names(), 1)})"
        if self.preserve_length:
            whole = f"rpad(left({whole}, length({cell.value})), length({cell.value}), {quoted('a')})"
        return f"left({whole}, {self.max_length})"
