"""
A pipeline: one source, one log, one loop per sink. Read top to bottom, it is what ``pgsluice run`` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from pgsluice.errors import MachineError
from pgsluice.modifiers.chain import Chain
from pgsluice.observability.logs import configure_for_library
from pgsluice.pipeline.batch import remove_leftovers
from pgsluice.pipeline.loop import BatchOptions, SinkLoop
from pgsluice.pipeline.session import LazySpark, SparkOptions
from pgsluice.sinks.base import SinkContext
from pgsluice.source.names import DEFAULT_PIPELINE
from pgsluice.source.postgres import LogOptions, PostgresSource
from pgsluice.source.process import ListenerProcess

if TYPE_CHECKING:
    from pgsluice.changelog.position import Lsn
    from pgsluice.sinks.base import Sink
    from pgsluice.source.records import PipelineRecord

logger = structlog.get_logger(__name__)


STATE_HOME: Final = "~/.pgsluice"
_START_SECONDS: Final = 60.0  # for the listener to connect and stream; retries included
_WATCH_SECONDS: Final = 0.05
_RESTART_SECONDS: Final = 0.5


class Pipeline:
    """
    Carries the changes of a source to one or more sinks.

    Args:
        source: where changes come from.
        sinks: one sink, or several by name; each goes at its own pace.
        name: of the pipeline; the record on the source and the progress in targets are kept under it.
        state_dir: of this pipeline alone; by default ``~/.pgsluice/<name>``.
        wanted: says which tables go on, by schema and name.
    """

    def __init__(
        self,
        source: PostgresSource,
        sinks: Sink | Mapping[str, Sink],
        *,
        name: str = DEFAULT_PIPELINE,
        state_dir: str | Path | None = None,
        log_dir: Path | None = None,
        log: LogOptions | None = None,
        batch: BatchOptions | Mapping[str, BatchOptions] | None = None,
        chain: Chain | None = None,
        wanted: Callable[[str, str], bool] | None = None,
        spark: SparkOptions | None = None,
        listener_logs: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = source
        self._sinks = dict(sinks) if isinstance(sinks, Mapping) else {"target": sinks}
        self._name = name
        self.state_dir = Path(state_dir or Path(STATE_HOME) / name).expanduser()
        self.log_dir = log_dir or self.state_dir / "log"
        self._log = log or LogOptions()
        self._batch = batch or BatchOptions()
        self._chain = chain or Chain()
        self._wanted = wanted
        self._spark = LazySpark(spark or SparkOptions())
        self._listener_logs = dict(listener_logs or {})
        self._stopping = threading.Event()
        self.loops: dict[str, SinkLoop] = {}

    def run(self, *, once: bool = False) -> None:
        """
        Stream until :meth:`stop`; with ``once`` until every sink holds what the source had at the start.

        Returns when every running batch is finished and its progress kept.
        """
        configure_for_library()
        self._prepare_state()
        record = self._source.prepare(self._name)
        listener = ListenerProcess(
            self._source.listener_options(record, self.log_dir, self._log), **self._listener_logs
        )
        listener.start()
        try:
            listener.wait_until_streaming(_START_SECONDS)
            remove_leftovers(self.state_dir)  # the log's lock is ours now, so no other run is alive
            self._open_sinks(record)
            if once:
                self.finish_at(self._source.current_lsn())
            for loop in self.loops.values():
                loop.start()
            self._watch(listener)
            for name, loop in self.loops.items():
                logger.info(
                    "sink at rest", sink=name, changes=loop.facts.changes, position=str(loop.facts.position)
                )
        finally:
            self._stop_loops()
            listener.stop()
            self._spark.stop()
        self._raise_errors()  # also what went wrong while the loops finished their last batch

    def stop(self) -> None:
        """Ask a running pipeline to finish; safe in a signal handler."""
        self._stopping.set()

    def finish_at(self, lsn: Lsn) -> None:
        """Ask a running pipeline to end once every sink holds everything up to ``lsn``."""
        for loop in self.loops.values():
            loop.stop_at(lsn)

    def _prepare_state(self) -> None:
        try:
            self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as exc:
            raise MachineError(
                f"can't write to {self.state_dir}: {exc.strerror or exc}",
                remedy="Choose another --state-dir, or mend its rights",
            ) from exc

    def _open_sinks(self, record: PipelineRecord) -> None:
        for name, sink in self._sinks.items():
            loop = SinkLoop(
                name,
                sink,
                log=self.log_dir,
                context=SinkContext(self._name, self.state_dir),
                chain=self._chain,
                spark=self._spark,
                catalog=self._source.catalog,
                wanted=self._wanted,
                options=self._batch if isinstance(self._batch, BatchOptions) else self._batch[name],
            )
            self.loops[name] = loop
            held = loop.open()
            logger.info("sink opened", sink=name, position=str(held or "new"))
            if held is None:
                loop.require_log_since(record.slot_lsn)

    def _watch(self, listener: ListenerProcess) -> None:
        """Wait for the end; bring a killed listener back, and pass on what stopped a loop."""
        while not self._stopping.wait(_WATCH_SECONDS):
            self._raise_errors()
            if not any(loop.is_alive() for loop in self.loops.values()):
                return
            if not listener.check():
                logger.warning("listener ended, starting it again")
                time.sleep(_RESTART_SECONDS)
                listener.start()

    def _raise_errors(self) -> None:
        for loop in self.loops.values():
            if loop.error is not None:
                raise loop.error

    def _stop_loops(self) -> None:
        for loop in self.loops.values():
            loop.stop()
        for loop in self.loops.values():
            if loop.ident is not None:
                loop.join()
