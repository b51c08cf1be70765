"""
Group ``capture``: from the replication slot through the log and Spark to the first sinks.

One file per figure; ``scene`` has the server and the rows, ``route`` the parts of a pipeline, ``bare`` what
everything is compared with, ``checksum`` what every result is held against.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from bench.harness import measure_files
from pgsluice.embedded.binaries import bundled_bin_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.harness import Figure, Options

_FILES: Final = ("listener", "typed_noop", "duckdb_tables", "large_transaction", "latency")


def figure_names() -> tuple[str, ...]:
    """The files of this group, in their order."""
    return _FILES


def versions() -> Mapping[str, str]:
    """The server's version."""
    said = subprocess.run(
        [str(bundled_bin_dir() / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return {"postgresql": said.stdout.split()[-1]}


def measure(options: Options) -> Iterator[Figure]:
    """The figures of all files, over one server."""
    from bench.capture.scene import scene
    from pgsluice.observability.logs import configure

    configure(level="error", format="console", color=False)
    with scene(options) as place:
        yield from measure_files(__name__, _FILES, place, options)
