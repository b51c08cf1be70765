"""
Values with units, as people write them: sizes (``64MiB``), durations (``10s``, ``1h30m``), and paths.

Each setting comes with the way back: what is shown can be read again. ``readable_…`` is for eyes alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

if TYPE_CHECKING:
    from collections.abc import Callable

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB: Final = 1024 * MiB

_SIZES: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": KiB,
    "mib": MiB,
    "gib": GiB,
    "tib": 1024 * GiB,
}
_SECONDS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])\s*")


@dataclass(frozen=True, slots=True)
class Unit:
    """Marks a field as a value with a unit: its name for people, and how it is written."""

    name: str
    write: Callable[[Any], str]


def parse_size(value: Any) -> Any:
    """Bytes from ``64MiB``, ``1.5 GB`` or a plain number."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    factor = _SIZES.get((match[2] or "b").lower()) if match else None
    if match is None or factor is None:
        raise ValueError("write a size like 64MiB, 10GB or a plain number of bytes")
    return int(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def format_size(size: int) -> str:
    """``64MiB``; exact, so an odd number stays a number of bytes."""
    for name in ("TiB", "GiB", "MiB", "KiB"):
        factor = _SIZES[name.lower()]
        if size and size % factor == 0:
            return f"{size // factor}{name}"
    return f"{size}B"


def parse_duration(value: Any) -> Any:
    """Seconds from ``10s``, ``200ms``, ``1h30m`` or a plain number."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    seconds, at = 0.0, 0
    while match := _DURATION_PART.match(text, at):
        seconds += float(match[1]) * _SECONDS[match[2]]
        at = match.end()
    if not text or at != len(text):
        raise ValueError("write a duration like 10s, 200ms, 5m, 1h30m or a plain number of seconds")
    return seconds


def format_duration(seconds: float) -> str:
    """``5m``; the largest unit that is exact."""
    milliseconds = round(seconds * 1000)
    if abs(milliseconds - seconds * 1000) > 1e-3:
        return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"
    for name, factor in _SECONDS.items():
        count, rest = divmod(milliseconds, round(factor * 1000))
        if count and not rest:
            return f"{count}{name}"
    return "0s"


def readable_size(count: float) -> str:
    """Bytes in the largest unit that fits."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def readable_seconds(count: float) -> str:
    """Seconds, or minutes and hours of them."""
    if count < 90:
        return f"{count:.1f} s"
    minutes = round(count / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    Field(ge=0),
    Unit("size", format_size),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["64MiB", "10GB", 1048576]}),
]
"""A number of bytes."""

PositiveSize = Annotated[Size, Field(gt=0)]
"""A number of bytes that can't be 0."""

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    Field(ge=0, allow_inf_nan=False),
    Unit("duration", format_duration),
    WithJsonSchema({"type": ["string", "number"], "examples": ["10s", "200ms", "5m", 30]}),
]
"""A number of seconds."""

LocalPath = Annotated[Path, AfterValidator(_absolute), Unit("path", str)]
"""A path on this machine; ``~`` and paths relative to the working directory are made absolute."""
