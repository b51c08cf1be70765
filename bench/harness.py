"""
What a measurement is, and how it becomes a line: ``name  value  ratio  bar  ok|short``.

A group (:mod:`bench.groups`) gives figures; a figure is the median of at least three samples, compared
with the median of a reference that was measured in turn with it. :mod:`bench.report` prints and keeps them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from pgsluice.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LEAST_REPETITIONS: Final = 3
FULL_ROWS: Final = 1_000_000
MIB: Final = 1 << 20


class WrongResultError(Exception):
    """What was measured did not do its work: the rows differ from the source's."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a run of the benchmarks was asked for."""

    rows: int = FULL_ROWS
    repetitions: int = LEAST_REPETITIONS
    figures: tuple[str, ...] = ()  # only these modules of a group; all when empty

    @property
    def full(self) -> bool:
        """Whether the bars, which are meant for a full run, speak of this one."""
        return self.rows >= FULL_ROWS and not self.figures


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of a measurement took."""

    cpu_seconds: Mapping[str, float] = field(default_factory=dict)  # by role
    peak_bytes: Mapping[str, int] = field(default_factory=dict)  # by role

    @property
    def cpu(self) -> float:
        """Of all roles together."""
        return sum(self.cpu_seconds.values())

    @property
    def peak(self) -> int:
        """Of all roles together, each at its own highest."""
        return sum(self.peak_bytes.values())


@dataclass(frozen=True, slots=True)
class Sample:
    """One repetition."""

    value: float
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Bar:
    """What has to be reached: by the ratio to the reference, or by the value itself."""

    limit: float
    sign: Literal[">=", "<="] = ">="
    of: Literal["ratio", "value"] = "ratio"

    def reached(self, value: float, ratio: float | None) -> bool:
        """Whether a figure is on the right side of the bar."""
        measured = value if self.of == "value" else ratio
        if measured is None:
            raise ValueError("a bar for the ratio needs a reference")
        return measured >= self.limit if self.sign == ">=" else measured <= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure; with a bar it is ok or short, without one it is only shown."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    bar: Bar | None = None
    ok: bool | None = None
    usage: Usage = field(default_factory=Usage)
    samples: tuple[float, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> str:
        """The last word of the line."""
        return "-" if self.ok is None else "ok" if self.ok else "short"

    @property
    def bar_text(self) -> str:
        """The bar as people read it."""
        if self.bar is None:
            return "-"
        unit = "x" if self.bar.of == "ratio" else f" {self.unit}"
        return f"{self.bar.sign} {self.bar.limit:g}{unit}"


def figure(
    name: str,
    unit: str,
    samples: Sequence[Sample],
    *,
    reference: Sequence[Sample] = (),
    bar: Bar | None = None,
    note: str = "",
) -> Figure:
    """The figure of some repetitions: medians, and the ratio of the two medians."""
    value = median(samples)
    ratio = value / median(reference) if reference else None
    ok = None if bar is None else bar.reached(value, ratio)
    return Figure(
        name, value, unit, ratio, bar, ok, typical_usage(samples), tuple(s.value for s in samples), note
    )


def failure(name: str, reason: str) -> Figure:
    """The line of a measurement whose result was wrong: no figure at all."""
    return Figure(name, float("nan"), "", ok=False, note=reason)


def measure_files(group: str, names: Sequence[str], place: Any, options: Options) -> Iterator[Figure]:
    """The figures of a group's files, or of those that are asked for; a wrong result is a line of its own."""
    for name in names:
        if options.figures and name not in options.figures:
            continue
        try:
            yield from import_module(f"{group}.{name}").measure(place)
        except (WrongResultError, SluiceError) as exc:
            yield failure(name, str(exc))


def median(samples: Sequence[Sample]) -> float:
    """The median of at least three repetitions."""
    if len(samples) < LEAST_REPETITIONS:
        raise ValueError(f"{len(samples)} repetitions, {LEAST_REPETITIONS} are needed")
    return statistics.median(sample.value for sample in samples)


def better(*candidates: Sequence[Sample]) -> Sequence[Sample]:
    """The candidate with the highest median."""
    return max(candidates, key=median)


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that ``percent`` of all don't exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def typical_usage(samples: Sequence[Sample]) -> Usage:
    """Median CPU and highest memory of each role over the repetitions."""
    cpu: dict[str, list[float]] = {}
    peaks: dict[str, list[int]] = {}
    for sample in samples:
        for role, seconds in sample.usage.cpu_seconds.items():
            cpu.setdefault(role, []).append(seconds)
        for role, size in sample.usage.peak_bytes.items():
            peaks.setdefault(role, []).append(size)
    return Usage(
        {role: statistics.median(found) for role, found in cpu.items()},
        {role: max(found) for role, found in peaks.items()},
    )


def exit_code(figures: Iterable[Figure]) -> int:
    """1 when one falls short or has no result."""
    return int(any(found.ok is False for found in figures))
