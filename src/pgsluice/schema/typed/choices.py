"""
What to do with values that PostgreSQL can hold and a typed column can't.

``null``
    NULL in the column, and the value's text in ``_untyped`` under the column's name. The default:
    nothing is lost, nothing is changed silently, and one odd value doesn't stop a stream.
``clamp``
    The nearest value that the column can hold; the true text still stands in ``_untyped``.
``string``
    Columns of this kind are strings, with every value as PostgreSQL writes it.
``stop``
    An error with the code ``SLUICE-UNTYPED`` that names table, column and position.

Text that is no value of the column's type at all (a word in an int4) can only come from a row that was
misread. That is always an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TimeChoice = Literal["null", "clamp", "string", "stop"]
"""For dates and timestamps, which have an order and therefore a nearest value."""

Choice = Literal["null", "string", "stop"]
"""For what has no nearest value: NaN, and arrays of another form."""


@dataclass(frozen=True, slots=True)
class SpecialValues:
    """The choices for one table or one pipeline."""

    dates: TimeChoice = "null"  # infinity, BC, and years after 9999
    timestamps: TimeChoice = "null"  # the same, with and without time zone
    decimals: Choice = "null"  # NaN; PostgreSQL lets no infinity into a numeric(p, s)
    arrays: Choice = "null"  # more than one dimension, or another lower bound than 1
