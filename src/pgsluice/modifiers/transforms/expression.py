"""A value that an expression of the user's makes."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from pgsluice.modifiers.transforms.base import Cell, Family, Nulls, Transform, family
from pgsluice.modifiers.transforms.times import as_text


class Sql(Transform):
    """The result of an expression in Spark SQL over the typed columns of the row."""

    families: ClassVar[frozenset[Family] | None] = frozenset(
        {
            "text",
            "integer",
            "float",
            "numeric",
            "boolean",
            "date",
            "timestamp",
            "timestamptz",
            "uuid",
            "bytea",
            "json",
        }
    )
    expression: str = Field(min_length=1)
    """Such as concat(left(name, 1), '.') or total * 2; columns by their names."""

    @property
    def nulls(self) -> Nulls:
        """An answer as others."""
        return "result"

    @property
    def may_be_cut(self) -> bool:
        """What does not fit is not what was asked for."""
        return False

    def sql(self, cell: Cell) -> str:
        """The result as PostgreSQL reads it for the column's type."""
        made = f"({cell.over_row(self.expression)})"
        match family(cell.type):
            case "boolean":
                return f"left(cast(cast({made} as boolean) as string), 1)"
            case "integer":
                return f"cast(cast({made} as bigint) as string)"
            case "bytea":
                return f"'\\\\x' || lower(hex({made}))"
            case "date" | "timestamp" | "timestamptz":
                return as_text(f"cast({made} as timestamp)", cell)
            case _:
                return f"cast({made} as string)"
