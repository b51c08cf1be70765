"""What does not depend on the value, or is the value."""

from __future__ import annotations

from typing import ClassVar

from pgsluice.modifiers.transforms.base import Cell, Transform, Uniqueness
from pgsluice.modifiers.transforms.sql import quoted


class Noop(Transform):
    """The value as it is: says, under strict validation, that a column needs nothing."""

    uniqueness: ClassVar[Uniqueness] = "preserved"

    def sql(self, cell: Cell) -> str:
        """The value."""
        return cell.value


class Null(Transform):
    """NULL in place of every value."""

    gives_null: ClassVar[bool] = True

    def sql(self, cell: Cell) -> str:
        """Nothing."""
        return "cast(null as string)"


class LiteralString(Transform):
    """The same text in place of every value."""

    literal: str
    """The text, as PostgreSQL reads it for the column's type."""

    def sql(self, cell: Cell) -> str:
        """The text."""
        return quoted(self.literal)
