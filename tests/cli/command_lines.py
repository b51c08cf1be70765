"""The command line that most tests of this folder begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def to_duckdb(place: Path, url: str | None, command: str = "run") -> list[str]:
    """A run into ``x.duckdb`` in a directory of the test's own; without a URL libpq finds the server."""
    source = ["--source-url", url] if url else []
    target = ["--target", "duckdb", "--target-url", str(place / "x.duckdb")]
    return [command, *source, *target, "--state-dir", str(place / "state"), "--init"]
