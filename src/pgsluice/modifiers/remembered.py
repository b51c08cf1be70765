"""Expressions that are made once for a set of table versions: each piece of them is a trip to the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.schema.table import TableVersion

Made = TypeVar("Made")
_MOST: Final = 256  # sets of versions


class Remembered(Generic[Made]):
    """What a modifier makes for the tables that it touches."""

    def __init__(
        self,
        touches: Callable[[TableVersion], bool],
        make: Callable[[SparkSession, tuple[TableVersion, ...]], Made],
    ) -> None:
        self._touches = touches
        self._make = make
        self._made: dict[tuple[TableVersion, ...], Made] = {}

    def of(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> Made | None:
        """For the tables of a frame; None when it touches none of them."""
        touched = tuple(version for version in tables.values() if self._touches(version))
        if not touched:
            return None
        if touched not in self._made:
            if len(self._made) >= _MOST:
                self._made.clear()
            self._made[touched] = self._make(frame.sparkSession, touched)
        return self._made[touched]
