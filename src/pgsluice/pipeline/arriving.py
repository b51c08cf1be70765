"""
Applying a transaction while it is still coming in, for a sink that can take everything back.

The server sends a transaction only when it is committed, so its end will come; unless the connection breaks,
and then what was begun is rolled back. What the sink has to do after the end is the last piece.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from pgsluice.changelog.arriving import BrokenOffError
from pgsluice.changelog.position import Lsn
from pgsluice.pipeline.batch import LogStep, decoded

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from pgsluice.changelog.arriving import Arriving
    from pgsluice.changelog.plan import LogRange
    from pgsluice.changelog.reader import LogReader
    from pgsluice.schema.table import TableVersion
    from pgsluice.sinks.base import Sink
    from pgsluice.source.tasks import Part

    Resolve = Callable[[Sequence[LogRange]], tuple[Sequence[Part], Mapping[int, TableVersion]]]
    """Ranges ready to be decoded, and the tables that they name."""

logger = structlog.get_logger(__name__)

_PATIENCE: Final = 5.0  # seconds without a further piece: the target's locks are let go


class ArrivingStep(LogStep):
    """The data of a transaction, piece by piece; ``tables`` grows with it."""

    def __init__(
        self,
        arriving: Arriving,
        resolve: Resolve,
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
            if self._stopping.is_set():
                raise BrokenOffError
            parts, tables = self._resolve((range_,))
            self._known.update(tables)
            yield from decoded(parts)
            self._moved_at = time.monotonic()

    def _go_on(self) -> bool:
        return not self._stopping.is_set() and time.monotonic() - self._moved_at < _PATIENCE


class _ArrivingBatch:
    """One transaction, whose end is not known before all of its rows are taken."""

    def __init__(
        self,
        start: str | None,
        step: ArrivingStep,
        arriving: Arriving,
        token: Callable[[Lsn], str],
        held: Collection[int],
    ) -> None:
        self.start = start
        self.held = held
        self.steps = (step,)
        self.swaps = ()
        self._arriving = arriving
        self._token = token

    @property
    def end(self) -> str:
        """The token; until then one that no target holds."""
        return "" if self._arriving.end is None else self._token(self._arriving.end)


@dataclass(frozen=True, slots=True)
class Begun:
    """What has become of a transaction that was begun early."""

    end: Lsn  # 0: it never became whole
    token: str | None  # of the sink's new progress; None: it was taken back, or nobody knows
    changes: int


class EarlyStart:
    """Begins with transactions that are still coming in, if a sink can take them back."""

    def __init__(
        self, sink: Sink, reader: LogReader, step: Callable[[Arriving, Resolve], ArrivingStep]
    ) -> None:
        self._sink = sink
        self._reader = reader
        self._step = step
        self._refused: Lsn | None = None  # where a transaction is left alone until it is whole

    @property
    def possible(self) -> bool:
        """Whether the sink can."""
        return getattr(self._sink, "takes_arriving", False)

    def begin(
        self,
        position: Lsn,
        start: str | None,
        resolve: Resolve,
        token: Callable[[Lsn], str],
        held: Collection[int],
    ) -> Begun | None:
        """Apply the transaction after a position; None when there is none to begin with."""
        arriving = self._reader.arriving(position) if self._refused != position else None
        if arriving is None:
            return None
        batch = _ArrivingBatch(start, self._step(arriving, resolve), arriving, token, held)
        try:
            self._sink.apply(batch)
        except Exception as exc:  # noqa: BLE001 - the usual way meets it again, and knows what to do
            logger.debug("begun too early", reason=str(exc))
            self._refused = position
            return Begun(arriving.end or Lsn(0), None, 0)
        assert arriving.end is not None
        return Begun(arriving.end, batch.end, arriving.changes)
