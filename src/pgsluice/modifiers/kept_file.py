"""What modifiers keep in the state directory: small files of JSON, for their owner only, always whole."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def read_kept(path: Path | None) -> Any:
    """What a file has; None without one."""
    return json.loads(path.read_text()) if path is not None and path.exists() else None


def write_kept(path: Path, kept: Any) -> None:
    """Replace a file; what is in it survives a power cut."""
    fresh = path.with_suffix(".new")
    with open(fresh, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        json.dump(kept, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
