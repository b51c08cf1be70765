"""Every test of this folder runs for each sink and each way; ``@only(...)`` narrows the sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice.sinks.base import SinkContext
from tests.contract.targets import TARGETS
from tests.contract.ways import CUTS_CHUNKS, NEED_SPARK, WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.sinks.base import Batch, Sink
    from pgsluice.testing.batches import Changes
    from tests.contract.targets import Target


class Run:
    """Sinks on one target, as one run after the other would open them."""

    def __init__(self, target: Target, way: str) -> None:
        self.target = target
        self.way = way
        self._opened: list[Sink] = []

    def open(self, pipeline: str = "shop") -> tuple[Sink, str | None]:
        """A new run: a new sink, opened, and the token that the target holds."""
        sink = self.target.sink()
        self._opened.append(sink)
        return sink, sink.open(SinkContext(pipeline, self.target.directory))

    def batch(self, changes: Changes, start: str | None, end: str, *, chunk_rows: int = 65_536) -> Batch:
        """The changes as a batch that comes by this test's way."""
        step = changes.step()
        return WAYS[self.way](step.rows, step.tables, start=start, end=end, chunk_rows=chunk_rows)

    def close(self) -> None:
        """Close every sink, and the target."""
        for sink in self._opened:
            sink.close()
        self.target.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give ``run`` the sinks that the test asks for, and all ways; and ``chunk_rows`` its numbers."""
    if "run" not in metafunc.fixturenames:
        return
    chosen = list(_chosen(metafunc))
    chunks = metafunc.definition.get_closest_marker("chunks")
    if chunks is None:
        metafunc.parametrize(
            "run",
            [pytest.param((name, way), id=f"{name}-{way}", marks=_marks(name, way)) for name, way in chosen],
            indirect=True,
        )
        return
    cases = [
        pytest.param((name, way), rows, id=f"{name}-{way}-{rows}", marks=_marks(name, way))
        for name, way in chosen
        for rows in (chunks.args if way in CUTS_CHUNKS else chunks.args[-1:])
    ]
    metafunc.parametrize(("run", "chunk_rows"), cases, indirect=["run"])


def _chosen(metafunc: pytest.Metafunc) -> Iterator[tuple[str, str]]:
    """The sinks and ways of a test."""
    wanted = metafunc.definition.get_closest_marker("only")
    limits = dict(wanted.kwargs) if wanted else {}
    ways = limits.pop("ways", WAYS)
    for name, target in TARGETS.items():
        if all(getattr(target, attribute) == value for attribute, value in limits.items()):
            yield from ((name, way) for way in WAYS if way in ways)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of this folder."""
    config.addinivalue_line(
        "markers",
        "only(holds=, guarantee=, copied=, keeps_all=, ways=): run for such sinks, and by these ways, only",
    )
    config.addinivalue_line("markers", "chunks(1, 2, ...): run with so many rows at a time, as chunk_rows")


def _marks(name: str, way: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.spark] if TARGETS[name].needs_spark or way in NEED_SPARK else []


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    """Runs on a new, empty target."""
    name, way = request.param
    if TARGETS[name].needs_spark or way in NEED_SPARK:
        request.getfixturevalue("spark")
    database = request.getfixturevalue("database") if TARGETS[name].needs_database else None
    running = Run(TARGETS[name](tmp_path, database), way)
    yield running
    running.close()
