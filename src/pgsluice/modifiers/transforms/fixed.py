"""What does not depend on the value, or is the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pgsluice.modifiers.transforms.base import Cell, Nulls, Transform, Uniqueness
from pgsluice.modifiers.transforms.readable import canonical
from pgsluice.modifiers.transforms.sql import quoted
from pgsluice.schema.type_names import display_name

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType


class Noop(Transform):
    """The value as it is: says, under strict validation, that a column needs nothing."""

    uniqueness: ClassVar[Uniqueness] = "preserved"

    @property
    def nulls(self) -> Nulls:
        """None of its own."""
        return "never"

    def sql(self, cell: Cell) -> str:
        """The value."""
        return cell.value


class Null(Transform):
    """NULL in place of every value."""

    @property
    def nulls(self) -> Nulls:
        """Nothing else."""
        return "always"

    def sql(self, cell: Cell) -> str:
        """Nothing."""
        return "cast(null as string)"


class LiteralString(Transform):
    """The same text in place of every value."""

    literal: str
    """The text, as PostgreSQL reads it for the column's type."""

    @property
    def nulls(self) -> Nulls:
        """It always has something to give."""
        return "never"

    @property
    def may_be_cut(self) -> bool:
        """A literal that does not fit is a mistake."""
        return False

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Its own."""
        return len(self.literal), len(self.literal)

    def problem(self, type_: PgType) -> str | None:
        """The column's type must be able to read it."""
        if canonical(self.literal, type_) is None:
            return f"the literal is no {display_name(type_)}, as PostgreSQL writes it"
        return None

    def sql(self, cell: Cell) -> str:
        """The text, as PostgreSQL would write it."""
        written = canonical(self.literal, cell.type)
        return quoted(self.literal if written is None else written)
