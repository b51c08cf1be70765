"""
The text of a one-dimensional array, taken apart in the JVM: from ``{a,"b c",NULL}`` to texts of elements.

PostgreSQL quotes an element that is empty, spells NULL, or has a comma, brace, quote, backslash or white
space in it, and puts a backslash before quotes and backslashes; nothing else needs to be known.
:mod:`pgsluice.schema.typed.arrow_array` does the same for Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

# Text in PostgreSQL never holds NUL, so these can stand for the two escapes while the text is taken
# apart: then a quoted element is simply what lies between two quotes, and no regular expression has to
# step over escapes (Java's would overflow its stack on a long element).
_ESCAPED_BACKSLASH: Final = "\0b"
_ESCAPED_QUOTE: Final = "\0q"

_ELEMENT: Final = '"[^"]*+"|[^,"{}]++'


def is_flat(value: Column) -> Column:
    """Whether it has one dimension that begins at 1, or no elements, and is text that Java can read."""
    return value.startswith("{") & ~value.startswith("{{") & F.is_valid_utf8(value)


def element_texts(value: Column) -> Column:
    """The elements' texts of a flat array; NULL when the text is not one."""
    return let(_hide_escapes(value), _split)


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """``body(value)`` with the value computed once; Catalyst has no such thing of its own."""
    return F.element_at(F.transform(F.array(value), body), 1)


def _split(text: Column) -> Column:
    elements = F.regexp_extract_all(text, F.lit(_ELEMENT), F.lit(0))
    # Put together again they must give the text back, or it was no flat array's text.
    return let(elements, lambda found: F.when(_joined(found) == text, F.transform(found, _unquoted)))


def _joined(elements: Column) -> Column:
    return F.concat(F.lit("{"), F.array_join(elements, ","), F.lit("}"))


def _unquoted(element: Column) -> Column:
    quoted = _show_escapes(F.substring(element, 2, F.length(element) - 2))
    return F.when(element.startswith('"'), quoted).when(element != "NULL", element)


def _hide_escapes(text: Column) -> Column:
    hidden = F.replace(text, F.lit("\\\\"), F.lit(_ESCAPED_BACKSLASH))
    hidden = F.replace(hidden, F.lit('\\"'), F.lit(_ESCAPED_QUOTE))
    return F.when(text.contains("\\"), hidden).otherwise(text)


def _show_escapes(text: Column) -> Column:
    shown = F.replace(text, F.lit(_ESCAPED_QUOTE), F.lit('"'))
    shown = F.replace(shown, F.lit(_ESCAPED_BACKSLASH), F.lit("\\"))
    return F.when(text.contains("\0"), shown).otherwise(text)
