"""Names as SQL, and queries that leave nothing open behind them."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def quoted(*parts: str) -> str:
    """A name as SQL, with quotes around each part."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def folded_case(name: str) -> str:
    """What DuckDB compares names by: letters of ASCII without their case."""
    return name.translate(_LOWER)


def first_row(connection: Any, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """The first row of a query; reads to the end, for an open result blocks its connection."""
    rows = connection.execute(query, list(values)).fetchall()
    return rows[0] if rows else None


def database_name(connection: Any) -> str:
    """
    The name of the file's database.

    Names of tables begin with it: a schema may be called the same as the file, and then DuckDB finds
    ``schema.table`` ambiguous.
    """
    (name,) = connection.execute("SELECT current_database()").fetchall()[0]
    return str(name)
