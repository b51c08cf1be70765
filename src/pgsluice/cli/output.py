"""
What commands print on standard output: tables for people, JSON for programs.

Log lines and errors are not printed here; they go to standard error.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

# Not a terminal: nothing is wrapped or cut, so that grep and awk see whole rows.
_PIPE_WIDTH: Final = 100_000


def console(no_color: bool = False) -> Console:
    """Standard output; colours only on a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(
        file=sys.stdout, width=width, no_color=no_color or None, markup=False, highlight=False, emoji=False
    )


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, no_color: bool = False) -> None:
    """A table with aligned columns and no lines."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console(no_color).print(table)


def print_json(data: Any) -> None:
    """A value as JSON, indented."""
    print_text(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def print_text(text: str = "") -> None:
    """A line, as it is."""
    sys.stdout.write(text + "\n")
