"""Dates and times that are made up or moved."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field, model_validator

from pgsluice.modifiers.transforms.base import Cell, Family, Generated, Transform, Uniqueness, family
from pgsluice.modifiers.transforms.sql import Draw, hmac_sha256
from pgsluice.modifiers.transforms.times import as_text, time_of

if TYPE_CHECKING:
    from pgsluice.schema.table import PgType

Part = Literal["nanosecond", "microsecond", "millisecond", "second", "minute", "hour", "day", "month", "year"]

_MICROSECONDS_OF_A_DAY: Final = 86_400_000_000
_DATE_LENGTH: Final = len("2024-01-31")
_PARTS: Final = {  # in microseconds, the longest of each
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": _MICROSECONDS_OF_A_DAY,
    "month": 31 * _MICROSECONDS_OF_A_DAY,
    "year": 366 * _MICROSECONDS_OF_A_DAY,
}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Date(Generated):
    """A date of a range."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"date", "text"})
    uniqueness: ClassVar[Uniqueness] = "likely"

    min_value: dt.date
    """The earliest."""

    max_value: dt.date
    """The latest."""

    @model_validator(mode="after")
    def _a_range(self) -> Date:
        if self.min_value > self.max_value:
            raise ValueError("min_value must not be after max_value")
        return self

    @property
    def lengths(self) -> tuple[int, int | None]:
        """Year, month and day."""
        return _DATE_LENGTH, _DATE_LENGTH

    def outcomes(self, type_: PgType) -> float | None:
        """The days of the range."""
        return (self.max_value - self.min_value).days + 1

    def sql(self, cell: Cell) -> str:
        """A number of days after the earliest."""
        days = cell.draw(self.generator).below((self.max_value - self.min_value).days + 1)
        return f"cast(date_add(DATE'{self.min_value}', cast({days} as int)) as string)"


class Timestamp(Generated):
    """A moment of a range."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"timestamp", "timestamptz"})
    uniqueness: ClassVar[Uniqueness] = "likely"

    min_timestamp: dt.datetime
    """The earliest; without an offset it is in UTC."""

    max_timestamp: dt.datetime
    """The latest."""

    truncate_part: Part | None = None
    """The smallest part that is made up; smaller ones are 0."""

    @model_validator(mode="before")
    @classmethod
    def _empty_is_unset(cls, values: object) -> object:
        if isinstance(values, dict) and values.get("truncate_part") == "":
            return {key: value for key, value in values.items() if key != "truncate_part"}
        return values

    @model_validator(mode="after")
    def _a_range(self) -> Timestamp:
        if _microseconds(self.min_timestamp) > _microseconds(self.max_timestamp):
            raise ValueError("min_timestamp must not be after max_timestamp")
        return self

    def outcomes(self, type_: PgType) -> float | None:
        """The moments of the range."""
        whole = _microseconds(self.max_timestamp) - _microseconds(self.min_timestamp)
        return whole // _PARTS.get(self.truncate_part or "", 1) + 1

    def sql(self, cell: Cell) -> str:
        """A number of microseconds after the earliest."""
        ends = _microseconds(self.min_timestamp), _microseconds(self.max_timestamp)
        moment = f"timestamp_micros({cell.draw(self.generator).between(*ends)})"
        if self.truncate_part not in (None, "nanosecond"):
            moment = f"date_trunc('{self.truncate_part}', {moment})"
        return as_text(moment, cell)


class Shift(Transform):
    """The date or time, moved by a number of days that is the same for all values of one key."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"date", "timestamp", "timestamptz"})
    dynamic: ClassVar[frozenset[str]] = frozenset({"by"})

    min_days: int = Field(default=-30, ge=-100_000, le=100_000)
    """The least that is added."""

    max_days: int = Field(default=30, ge=-100_000, le=100_000)
    """The most that is added."""

    @model_validator(mode="after")
    def _a_range(self) -> Shift:
        if self.min_days > self.max_days:
            raise ValueError("min_days must not be above max_days")
        return self

    def sql(self, cell: Cell) -> str:
        """Days by the digest of the key; by the value's own where no column is named."""
        key = cell.parameters.get("by", cell.value)
        days = Draw(hmac_sha256(cell.key, key)).between(self.min_days, self.max_days)
        moment = time_of(cell)
        if family(cell.type) == "date":
            return f"cast(date_add(cast({moment} as date), cast({days} as int)) as string)"
        return as_text(f"timestamp_micros(unix_micros({moment}) + {days} * {_MICROSECONDS_OF_A_DAY})", cell)


def _microseconds(moment: dt.datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(microseconds=1)
