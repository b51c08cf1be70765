"""What a running pipeline shows: a live view on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.units import readable_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from pgsluice.pipeline.loop_facts import LoopFacts
    from pgsluice.pipeline.run import Pipeline

logger = structlog.get_logger(__name__)

_VIEW_SECONDS: Final = 0.25
_BAR_WIDTH: Final = 20
_LINE_SECONDS: Final = 10.0  # between lines where there is no terminal


@contextlib.contextmanager
def display(pipeline: Pipeline) -> Iterator[None]:
    """Show how far the sinks are while the block runs."""
    ended = threading.Event()
    show = _live if sys.stderr.isatty() else _lines
    thread = threading.Thread(target=show, args=(pipeline, ended), name="display", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _lines(pipeline: Pipeline, ended: threading.Event) -> None:
    rates = _Rates()
    while not ended.wait(_LINE_SECONDS):
        for name, facts in pipeline.facts.items():
            logger.info(
                "progress", sink=name, position=facts.shown_position, changes=facts.changes,
                per_second=round(rates.of(name, facts.changes)), state=facts.state,
            )  # fmt: skip


def _live(pipeline: Pipeline, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.live import Live

    rates = _Rates()
    # Drawn by this thread alone: one of Live's own would draw each view twice, and at times after the next.
    with Live(console=Console(stderr=True), auto_refresh=False, transient=False) as live:
        while not ended.wait(_VIEW_SECONDS):
            live.update(_view(pipeline, rates), refresh=True)
        live.update(_view(pipeline, rates), refresh=True)


def _view(pipeline: Pipeline, rates: _Rates) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("sink", "position", "changes", "changes/s", "batches", "state"):
        table.add_column(column, justify="right" if column.startswith(("changes", "batches")) else "left")
    for name, facts in pipeline.facts.items():
        rate = rates.of(name, facts.changes)
        table.add_row(
            name,
            facts.shown_position,
            f"{facts.changes:,}",
            f"{rate:,.0f}",
            f"{facts.batches:,}",
            _state(facts),
        )
    return table


def _state(facts: LoopFacts) -> RenderableType:
    """What a sink does; with a bar while it copies tables."""
    from rich.columns import Columns
    from rich.progress_bar import ProgressBar

    copying = facts.copying
    if copying is None or facts.retrying or facts.ended:
        return facts.state
    left = copying.seconds_left
    rest = f", {readable_seconds(left)} left" if left else ""
    bar = ProgressBar(total=max(copying.bytes, 1), completed=copying.copied_bytes, width=_BAR_WIDTH)
    return Columns([bar, facts.state + rest])


class _Rates:
    """Changes per second since the last look, smoothed."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int, float]] = {}

    def of(self, name: str, changes: int) -> float:
        now = time.monotonic()
        at, before, rate = self._seen.get(name, (now, changes, 0.0))
        if now > at:
            rate = 0.5 * rate + 0.5 * (changes - before) / (now - at)
        self._seen[name] = (now, changes, rate)
        return rate
