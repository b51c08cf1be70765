"""Values that a typed column can't hold, from COPY's binary format to the text that the server writes."""

from __future__ import annotations

import struct
from typing import Final

_DAY: Final = 86_400_000_000  # microseconds
_FIRST_DAY: Final = -730_119  # 0001-01-01, from 2000-01-01
_LAST_DAY: Final = 2_921_939  # 9999-12-31

DATE_BOUNDS: Final = (_FIRST_DAY, _LAST_DAY)
"""The days that a typed column holds, from PostgreSQL's epoch on."""
TIME_BOUNDS: Final = (_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1)
"""The same in microseconds."""

_INFINITE: Final = {
    -(1 << 31): "-infinity",
    (1 << 31) - 1: "infinity",
    -(1 << 63): "-infinity",
    (1 << 63) - 1: "infinity",
}
_SPECIAL_NUMERICS: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_NEGATIVE: Final = 0x4000


def date_text(days: int) -> str:
    """A date, from its number of days after 2000-01-01."""
    if days in _INFINITE:
        return _INFINITE[days]
    day, era = _day_text(days)
    return day + era


def time_text(microseconds: int, with_zone: bool) -> str:
    """A timestamp; ``with_zone`` as a session writes it whose time zone is UTC."""
    if microseconds in _INFINITE:
        return _INFINITE[microseconds]
    days, rest = divmod(microseconds, _DAY)
    day, era = _day_text(days)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    behind = f".{fraction:06d}".rstrip("0") if fraction else ""
    zone = "+00" if with_zone else ""
    return f"{day} {minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{behind}{zone}{era}"


def _day_text(days: int) -> tuple[str, str]:
    """A day of the Gregorian calendar, carried on into all years, and BC or nothing."""
    # Counted from the first of March in a year that 400 divides: the leap day is a year's last one.
    cycle, day = divmod(days + 730_425, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    year += 400 * cycle + (month <= 2)
    era = " BC" if year <= 0 else ""
    return f"{1 - year if era else year:04d}-{month:02d}-{day:02d}", era


def numeric_text(data: bytes) -> str:
    """A numeric of any form."""
    count, weight, sign, scale = struct.unpack_from(">hhHh", data)
    if sign in _SPECIAL_NUMERICS:
        return _SPECIAL_NUMERICS[sign]
    digits = "".join(f"{digit:04d}" for digit in struct.unpack_from(f">{count}h", data, 8))
    before = max(0, 4 * (weight + 1))
    digits = "0" * max(0, -4 * (weight + 1)) + digits
    whole, fraction = digits[:before].ljust(before, "0").lstrip("0") or "0", digits[before:]
    behind = "." + fraction.ljust(scale, "0")[:scale] if scale else ""
    return ("-" if sign == _NEGATIVE else "") + whole + behind
