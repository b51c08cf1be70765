"""Names in SQL: with quotes around them, and without."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name as SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def bare(part: str) -> str:
    """The name that SQL means, with quotes or without."""
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
