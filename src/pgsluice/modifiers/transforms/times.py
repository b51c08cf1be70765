"""Dates and times: between PostgreSQL's text and what Spark reckons with, and back."""

from __future__ import annotations

from pgsluice.modifiers.transforms.base import Cell, family


def time_of(cell: Cell) -> str:
    """
    The moment that a text names, as a timestamp; NULL for what Spark has no place for.

    That is what is before the year 1 or after 9999, and infinity: a bare cast would take 44 BC for 44 AD.
    """
    value = cell.value
    text = f"replace({value}, '+00', '')" if family(cell.type) == "timestamptz" else value
    usual = f"instr({value}, '-') = 5 and not endswith({value}, 'BC')"
    return f"if({usual}, try_cast({text} as timestamp), null)"


def as_text(moment: str, cell: Cell) -> str:
    """A timestamp as PostgreSQL writes it for the cell's type; sessions are pinned to UTC."""
    match family(cell.type):
        case "date":
            return f"left(cast({moment} as string), 10)"
        case "timestamptz":
            return f"cast({moment} as string) || '+00'"
        case _:
            return f"cast({moment} as string)"
