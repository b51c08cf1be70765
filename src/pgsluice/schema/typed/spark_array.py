"""
The text of a one-dimensional array, taken apart in the JVM: from ``{a,"b c",NULL}`` to texts of elements.

PostgreSQL quotes an element that is empty, spells NULL, or has a comma, brace, quote, backslash or white
space in it, and puts a backslash before quotes and backslashes; nothing else needs to be known.
:mod:`pgsluice.schema.typed.arrow_array` does the same for Arrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)

if TYPE_CHECKING:
    from pyspark.sql import Column

# Text in PostgreSQL never holds NUL, so these can stand for the two escapes while the text is taken
# apart: then a quoted element is simply what lies between two quotes, and no regular expression has to
# step over escapes (Java's would overflow its stack on a long element).
_ESCAPED_BACKSLASH: Final = "\0b"
_ESCAPED_QUOTE: Final = "\0q"

_TOKEN: Final = '"[^"]*+"|[^,"{}]++'


def element_texts(value: Column) -> Column:
    """The elements' texts as an array; NULL for more dimensions, other lower bounds, or no array."""
    is_flat = value.startswith("{") & ~value.startswith("{{") & value.endswith("}")
    body = _hide_escapes(F.substring(value, 2, F.length(value) - 2))
    return F.when(is_flat, let(body, _split))


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """``body(value)`` with the value computed once; Catalyst has no such thing of its own."""
    return F.element_at(F.transform(F.array(value), body), 1)


def _split(body: Column) -> Column:
    tokens = F.regexp_extract_all(body, F.lit(_TOKEN), F.lit(0))
    # Put together again they must give the text back, or it was no array's text.
    return let(tokens, lambda found: F.when(F.array_join(found, ",") == body, F.transform(found, _unquoted)))


def _unquoted(token: Column) -> Column:
    quoted = _show_escapes(F.substring(token, 2, F.length(token) - 2))
    return F.when(token.startswith('"'), quoted).when(token != "NULL", token)


def _hide_escapes(text: Column) -> Column:
    hidden = F.replace(F.replace(text, F.lit("\\\\"), F.lit(_ESCAPED_BACKSLASH)), F.lit('\\"'), F.lit(_ESCAPED_QUOTE))
    return F.when(text.contains("\\"), hidden).otherwise(text)


def _show_escapes(text: Column) -> Column:
    shown = F.replace(F.replace(text, F.lit(_ESCAPED_QUOTE), F.lit('"')), F.lit(_ESCAPED_BACKSLASH), F.lit("\\"))
    return F.when(text.contains("\0"), shown).otherwise(text)
