"""
Group ``modifiers``: what rules cost on the way between two PostgreSQL servers, and each transformer alone.

``masked`` is compared with the same way without rules, in turn. ``transforms`` has no bars: it shows rows per
second and core of each transformer in the JVM. ``people`` has the rows and the rules of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.capture import versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure, Options

__all__ = ["figure_names", "measure", "versions"]

_FILES: Final = ("masked", "transforms")


def figure_names() -> tuple[str, ...]:
    """The files of this group, in their order."""
    return _FILES


def measure(options: Options) -> Iterator[Figure]:
    """The figures of all files, over one pair of clusters."""
    from bench.postgres.clusters import measure_on_clusters

    return measure_on_clusters(__name__, _FILES, options)
