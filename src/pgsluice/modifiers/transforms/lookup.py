"""Values of another table."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, Field, SecretStr

from pgsluice.modifiers.transforms.base import Cell, Generated
from pgsluice.modifiers.transforms.sql import quoted

_FIRST_PRIVATE, _LAST_PRIVATE = 0xE000, 0xF8FF  # characters that texts have no use for


def _texts(values: Any) -> Any:
    """YAML gives numbers, and truth values that PostgreSQL writes in another way."""
    if not isinstance(values, list | tuple):
        return values
    return ["t" if each is True else "f" if each is False else str(each) for each in values]


class Lookups(Protocol):
    """Knows what is chosen from."""

    def values(self, choice: LookupChoice) -> tuple[str, ...]:
        """The values; there is at least one."""


class LookupChoice(Generated):
    """
    One of the values that a column of another table has.

    They are read from the source when the pipeline starts, and at a reload. As long as they are the same, a
    deterministic choice is, too.
    """

    lookup_table: str = Field(min_length=1)
    """The table, as schema.table; without a schema it is in public."""

    lookup_column: str = Field(min_length=1)
    """The column; NULL is none of its values."""

    postgres_url: SecretStr | None = None
    """Where the table is; by default in the source."""

    max_values: int = Field(default=10_000, ge=1, le=1_000_000)
    """How many values are kept at most: the first ones in the order of their texts."""

    ignore_values: Annotated[tuple[str, ...], BeforeValidator(_texts)] = ()
    """Values that are never chosen."""

    @property
    def may_be_cut(self) -> bool:
        """A part of a value is none of the table's."""
        return False

    def sql(self, cell: Cell) -> str:
        """One of them; Spark takes the text apart once, not for each row."""
        values = cell.lookup(self)
        used = set("".join(values))
        apart = next(chr(code) for code in range(_FIRST_PRIVATE, _LAST_PRIVATE) if chr(code) not in used)
        listed = f"split({quoted(apart.join(values))}, {quoted(apart)})"
        return f"get({listed}, cast({cell.draw(self.generator).below(len(values))} as int))"
