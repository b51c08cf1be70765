"""
Group ``postgres``: from one PostgreSQL to another, and from PostgreSQL into Spark.

Each figure is compared with what PostgreSQL itself offers for the same job, in turn, on the same two
clusters. One file per figure; ``clusters`` has the two servers, ``changes`` the backlogs that are caught up
with, ``native`` a subscription, ``ours`` the parts of a pipeline, ``commands`` the programs of PostgreSQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.capture import versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.harness import Figure, Options

__all__ = ["figure_names", "measure", "versions"]

_FILES: Final = ("catch_up", "first_copy", "table_read", "latency")


def figure_names() -> tuple[str, ...]:
    """The files of this group, in their order."""
    return _FILES


def measure(options: Options) -> Iterator[Figure]:
    """The figures of all files, over one pair of clusters."""
    from bench.postgres.clusters import measure_on_clusters

    return measure_on_clusters(__name__, _FILES, options)
