"""
Printing figures and keeping them: ``bench/results/<group>.json`` for programs, ``.txt`` for people.

A kept result says on which commit, when and on which machine it was made; without that a figure is gossip.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from bench.harness import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.harness import Figure, Options

RESULTS: Final = Path(__file__).parent / "results"
_HEADINGS: Final = ("name", "value", "ratio", "bar", "ok", "cpu s", "peak MiB", "")
_WIDTHS: Final = (38, 16, 7, 10, 6, 8, 9, 0)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where figures were measured."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    load_before: float  # of other programs: ratios suffer least from it, absolute values most
    versions: Mapping[str, str]


def this_machine(**versions: str) -> Machine:
    """What there is to say about this machine; the group adds the versions of its servers."""
    known = {"python": platform.python_version(), "pyspark": version("pyspark"), "duckdb": version("duckdb")}
    return Machine(
        _cpu_model(),
        os.cpu_count() or 0,
        round(psutil.virtual_memory().total / 2**30, 1),
        f"{platform.system()} {platform.release()} {platform.machine()}",
        round(os.getloadavg()[0], 2),
        {**known, **versions},
    )


def heading() -> str:
    """The line above the figures."""
    return _columns(_HEADINGS)


def line(figure: Figure) -> str:
    """The line of one figure."""
    measured = f"{_number(figure.value)} {figure.unit}" if figure.unit else "failed"
    ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}x"
    cpu = f"{figure.usage.cpu:.2f}" if figure.usage.cpu_seconds else "-"
    peak = f"{figure.usage.peak / MIB:.0f}" if figure.usage.peak_bytes else "-"
    return _columns((figure.name, measured, ratio, figure.bar_text, figure.verdict, cpu, peak, figure.note))


def usage_lines(figure: Figure) -> list[str]:
    """CPU and memory by role, where a figure has several."""
    usage = figure.usage
    roles = dict.fromkeys([*usage.cpu_seconds, *usage.peak_bytes])
    if len(roles) < 2:
        return []
    return [
        f"    {role}: {usage.cpu_seconds.get(role, 0):.2f} s, {usage.peak_bytes.get(role, 0) / MIB:.0f} MiB"
        for role in roles
    ]


def keep(group: str, figures: Sequence[Figure], machine: Machine, options: Options) -> Path:
    """Write the result of a group; gives the file for people."""
    facts: dict[str, Any] = {
        "group": group,
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": options.rows,
        "repetitions": options.repetitions,
        "machine": asdict(machine),
    }
    RESULTS.mkdir(exist_ok=True)
    kept = {**facts, "figures": [_as_dict(figure) for figure in figures]}
    (RESULTS / f"{group}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    text = [f"{name}: {_plain(value)}" for name, value in facts.items()]
    text += ["", heading()]
    for figure in figures:
        text += [line(figure), *usage_lines(figure)]
    path = RESULTS / f"{group}.txt"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def _as_dict(figure: Figure) -> dict[str, Any]:
    value = None if figure.value != figure.value else figure.value  # JSON has no NaN
    return {**asdict(figure), "value": value, "verdict": figure.verdict, "bar_text": figure.bar_text}


def _plain(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name} {_plain(found)}" for name, found in value.items())


def _columns(cells: Sequence[str]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return "  ".join(padded).rstrip()


def _number(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f} k"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _commit() -> str:
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
            cwd=RESULTS.parent, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
