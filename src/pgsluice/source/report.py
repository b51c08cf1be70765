"""What the listener says about itself, in ``listener.json`` of the log: for ``status`` and for its parent."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ListenerReport:
    """The last word of a listener."""

    pid: int
    state: str  # starting, streaming, reconnecting, full, failed, stopped
    slot: str
    at: float = field(default_factory=time.time)
    durable: str = ""
    confirmed: str = ""
    wal_end: str = ""  # how far the server has looked at its WAL
    log_bytes: int = 0
    reconnects: int = 0
    reason: str = ""  # why it is reconnecting
    error: dict[str, Any] | None = None  # what ended it

    def with_(self, **facts: Any) -> ListenerReport:
        """The report of now."""
        return replace(self, at=time.time(), **facts)


def write_report(log: Path, report: ListenerReport) -> None:
    """Leave the report where others look; a full disk must not end the listener."""
    scratch = log / f".listener.{os.getpid()}"
    try:
        scratch.write_text(json.dumps(asdict(report)))
        scratch.replace(log / "listener.json")
    except OSError:
        return


def read_report(log: Path) -> ListenerReport | None:
    """The last report, or None where there is none."""
    try:
        return ListenerReport(**json.loads((log / "listener.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
