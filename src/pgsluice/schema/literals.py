"""
Values that stand in SQL: of defaults, rules, conditions of indexes, queries of views.

The server prints such texts with quotes around every name and casts after literals; so a few words of its
grammar tell values from names and types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pgsluice.schema.quotes import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

TELLING: Final = "it has a value in its words, and is made with a column whose values a rule changes"
"""Why something is not made in a target."""
_STRING: Final = r"[Ee]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'"
_NAME: Final = r'"(?:[^"]|"")+"'
# Of a type: what stands in its brackets is no value.
_CAST: Final = rf"::\s*(?:{_NAME}(?:\.{_NAME})?|[a-z][a-z ]*)(?:\(\d+(?:,\s*\d+)?\))?"
_TOKEN: Final = re.compile(
    rf"(?P<string>{_STRING})(?P<relation>::(?:\"pg_catalog\"\.)?\"?reg[a-z]+\"?)?"
    rf"|(?P<cast>{_CAST})|(?P<name>{_NAME})"
    r"|(?<![\w.$])(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?<![\w$])(?P<word>true|false)(?![\w$])",
    re.DOTALL,
)
_OPTIONS: Final = re.compile(r"""\bWITH \((?:"?[\w.]+"?='?[\w.]*'?(?:, )?)+\)""")  # of storage
_USUAL: Final = ("0", "1")  # numbers that tell nothing
_LETTER: Final = re.compile(r"\w")


def _found(text: str) -> Iterator[re.Match[str]]:
    return (found for found in _TOKEN.finditer(text) if not found["relation"] and found["cast"] is None)


def has_literal(text: str) -> bool:
    """Whether any value stands in an expression; the name of a sequence or another object is none."""
    return any(found["name"] is None for found in _found(text))


def tells(text: str) -> bool:
    """Whether a value stands there that may be somebody's: a text with letters, a number beyond 0 and 1."""
    text = _OPTIONS.sub("", text)
    return any(
        (found["string"] is not None and _LETTER.search(found["string"].lstrip("eE")) is not None)
        or (found["number"] is not None and found["number"] not in _USUAL)
        for found in _found(text)
    )


def names_in(text: str) -> set[str]:
    """The names in quotes."""
    return {bare(found["name"]) for found in _TOKEN.finditer(text) if found["name"] is not None}
