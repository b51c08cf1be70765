"""
The first and last day that typed columns hold.

Years 1 to 9999 are what Spark documents for its dates and timestamps, what Python can collect, and what
every lake format shares. PostgreSQL goes from 4713 BC to 5874897 (dates) and 294276 (timestamps).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LOWEST: Final[Mapping[str, str]] = {
    "date": "0001-01-01",
    "timestamp": "0001-01-01 00:00:00",
    "timestamptz": "0001-01-01 00:00:00+00",
}

HIGHEST: Final[Mapping[str, str]] = {
    "date": "9999-12-31",
    "timestamp": "9999-12-31 23:59:59.999999",
    "timestamptz": "9999-12-31 23:59:59.999999+00",
}
