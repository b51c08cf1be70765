"""Names on the source: the ones that pgsluice gives, and how names are written for people to copy."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from pgsluice.errors import ConfigError

DEFAULT_PIPELINE: Final = "main"  # as in the configuration
_PREFIX = "pgsluice"
_LONGEST = 63  # bytes of a name in PostgreSQL
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_SLOT = re.compile(r"[a-z0-9_]{1,63}")


def default_name(pipeline: str, database: str) -> str:
    """The name of slot and publication when none is given: valid for both, and one per database."""
    parts = (_PREFIX, database) if pipeline == DEFAULT_PIPELINE else (_PREFIX, pipeline, database)
    wanted = "_".join(parts)
    name = re.sub(r"[^a-z0-9_]", "_", wanted.lower())
    if name == wanted and len(name) <= _LONGEST:
        return name
    # Different names must not become the same one.
    mark = hashlib.sha256(wanted.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST - 9]}_{mark}"


def require_slot_name(name: str) -> str:
    """The name, when it may be one of a slot."""
    if not _SLOT.fullmatch(name):
        raise ConfigError(
            f"{name!r} can't be the name of a slot",
            remedy="Use lowercase letters, digits and underscores, 63 at most",
        )
    return name


def quoted(name: str) -> str:
    """A name as it is written in SQL, with quotes only where they are needed."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
