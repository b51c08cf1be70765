"""A value that an expression of the user's makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pgsluice.modifiers.transforms.base import Cell, Family, Transform, family
from pgsluice.modifiers.transforms.times import as_text

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType


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
    gives_null: ClassVar[bool] = True

    expression: str = Field(min_length=1)
    """Such as concat(left(name, 1), '.') or total * 2; columns by their names."""

    def problem(self, type_: PgType) -> str | None:
        """Whether it fits is seen when Spark analyses it."""
        return None

    def sql(self, cell: Cell) -> str:
        """The result as PostgreSQL reads it for the column's type."""
        made = f"({cell.over_row(self.expression)})"
        match family(cell.type):
            case "boolean":
                return f"cast(cast({made} as boolean) as string)"
            case "integer":
                return f"cast(cast({made} as bigint) as string)"
            case "bytea":
                return f"'\\\\x' || lower(hex({made}))"
            case "date" | "timestamp" | "timestamptz":
                return as_text(f"cast({made} as timestamp)", cell)
            case _:
                return f"cast({made} as string)"
