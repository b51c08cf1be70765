"""What ``pgsluice check`` finds: one record per finding, with what mends it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
"""``error`` would stop a run or make it lose rows; ``warning`` may bite later; ``info`` is good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a check."""

    code: str  # stable, for programs: wal-level, identity, row-security…
    severity: Severity
    what: str
    remedy: str = ""  # the SQL or the setting that mends it
    fields: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def listed(names: list[str] | tuple[str, ...], most: int = 8) -> str:
    """A list for people: the first few names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
