"""
Applying a transaction while it is still coming in, for a sink that can take everything back.

The server sends a transaction only when it is committed, so its end will come; unless the connection breaks,
and then what was begun is rolled back. What the sink has to do after the end is the last piece.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pgsluice.pipeline.batch import LogStep

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pgsluice.changelog.arriving import Arriving
    from pgsluice.changelog.plan import LogRange
    from pgsluice.schema.table import TableVersion
    from pgsluice.source.tasks import Part

_PATIENCE: Final = 5.0  # seconds without a further piece: the target's locks are let go


class ArrivingStep(LogStep):
    """The data of a transaction, piece by piece; ``tables`` grows with it."""

    def __init__(
        self,
        arriving: Arriving,
        resolve: Callable[[Sequence[LogRange]], tuple[Sequence[Part], Mapping[int, TableVersion]]],
        stopping: threading.Event,
        *rest: Any,
    ) -> None:
        self._known: dict[int, TableVersion] = {}
        super().__init__((), self._known, *rest, small=False, on_driver=True)
        self._arriving = arriving
        self._resolve = resolve
        self._stopping = stopping
        self._moved_at = time.monotonic()

    def chunks(self) -> Iterator[pa.Table]:
        """The rows as they come; raises BrokenOffError when they don't count. Can be called once."""
        for range_ in self._arriving.ranges(self._go_on):
            parts, tables = self._resolve((range_,))
            self._known.update(tables)
            for part in parts:
                for rows in part.rows():
                    yield pa.Table.from_batches([rows])
            self._moved_at = time.monotonic()

    def _go_on(self) -> bool:
        return not self._stopping.is_set() and time.monotonic() - self._moved_at < _PATIENCE


class ArrivingBatch:
    """One transaction, whose end is not known before all of its rows are taken."""

    def __init__(self, start: str | None, step: ArrivingStep, token: Callable[[], str | None]) -> None:
        self.start = start
        self.steps = (step,)
        self.swaps = ()
        self._token = token

    @property
    def end(self) -> str:
        """The token; until then one that no target holds."""
        return self._token() or ""
