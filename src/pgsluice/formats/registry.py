"""Which formats of JSON there are, by the names that configurations have for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pgsluice.schema.table import TableVersion

EventFormat = Literal["pgstream", "wal2json", "wal2json_v1"]
"""``wal2json`` is its format 2."""


class Events(Protocol):
    """From envelopes to ``relation``, ``commit_lsn``, ``seq`` and ``event``, a JSON text."""

    def __call__(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The events of rows of these table versions."""
        ...


PGSTREAM: Final[EventFormat] = "pgstream"


def events_in(name: EventFormat) -> Events:
    """What makes events in a format."""
    from pgsluice.formats import pgstream, wal2json

    match name:
        case "pgstream":
            return pgstream.events
        case "wal2json":
            return wal2json.events
        case "wal2json_v1":
            return partial(wal2json.events, version=1)
