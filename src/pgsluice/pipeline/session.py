"""
The Spark session of a run: started when first needed, tuned for small work, closed to the outside.

Starting Spark takes some seconds, which a run that only has a few rows to carry need not wait for.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.errors import MachineError
from pgsluice.pipeline.machine import OLDEST_JAVA, find_java, java_major

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

logger = structlog.get_logger(__name__)

_LOCAL: Final = {
    # Bound to loopback: nothing of a local run can be reached from another machine.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A Python task takes 65 ms instead of 96.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.scheduler.mode": "FAIR",
    # Recording the call site of every column halves the speed of building a frame.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The default forks `readlink` some ten times a batch: 92 ms of commits become 23.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.log.level": "ERROR",
}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs and how."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    quiet: bool = True  # hide Spark's own start lines


class LazySpark:
    """The session, made by the first who asks; others wait for it."""

    def __init__(self, options: SparkOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._warming = False
        self._borrowed = False  # somebody else's Spark, who ends it too

    def get(self) -> SparkSession:
        """The session; the first call starts Spark, unless this process has one already."""
        with self._lock:
            if self._session is None:
                self._session = running_session()
                self._borrowed = self._session is not None
            if self._session is None:
                logger.info("starting spark", master=self._options.master)
                self._session = start_session(self._options)
            return self._session

    def child(self) -> SparkSession:
        """A session with settings of its own over the same Spark."""
        return self.get().newSession()

    @property
    def ready(self) -> bool:
        """Whether Spark is up, so that :meth:`get` does not wait."""
        return self._session is not None

    def warm_up(self) -> None:
        """Start Spark behind the caller's back, so that the first large batch does not wait for it."""
        if not self._warming:
            self._warming = True
            threading.Thread(target=self._warm, name="spark-start", daemon=True).start()

    def _warm(self) -> None:
        try:
            self.get()
        except MachineError as exc:
            logger.warning("spark is not available yet", reason=str(exc))  # raised again where it is needed

    def stop(self) -> None:
        """End Spark, if it was started here."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None and not self._borrowed:
                try:
                    session.stop()
                except Exception as exc:
                    if spark_is_gone(exc) is None:
                        raise


def spark_is_gone(exc: BaseException) -> MachineError | None:
    """Our words for the death of the JVM under a running batch; None for every other error."""
    protocol = sys.modules.get("py4j.protocol")
    if protocol is None or not isinstance(exc, (protocol.Py4JNetworkError, ConnectionRefusedError)):
        return None
    return MachineError(
        "Spark's process ended while a batch was being applied",
        remedy="Start the run again: nothing is lost. If memory was short, lower batch.max_bytes",
    )


def running_session() -> SparkSession | None:
    """The session of a Spark that this process runs already, as a library's user may."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context is not None else None  # noqa: SLF001 - the only way to ask


def start_session(options: SparkOptions) -> SparkSession:
    """Start Spark, or say in one line why it can't be."""
    java = find_java()
    if java_major(java) < OLDEST_JAVA:
        raise MachineError(
            f"{java} is Java {java_major(java)}, Spark needs {OLDEST_JAVA} or newer",
            remedy="Install openjdk-17-jre-headless, or point JAVA_HOME at a newer one",
        )
    if options.master.startswith("local"):
        # Workers otherwise take the first python3 on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setMaster(options.master).setAppName("pgsluice")
    conf.setAll(list(_settings(options).items()))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it has to say comes as an exception too
    with _interrupts_kept():
        context = _start_context(conf, quiet=options.quiet)
    return SparkSession(context)


def _settings(options: SparkOptions) -> dict[str, str]:
    settings = {**(_LOCAL if options.master.startswith("local") else {}), **options.conf}
    if options.jars:
        settings["spark.jars"] = ",".join(options.jars)
    if options.packages:
        settings["spark.jars.packages"] = ",".join(options.packages)
    return settings


def _start_context(conf: SparkConf, *, quiet: bool) -> SparkContext:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    with tempfile.TemporaryFile() as said:
        try:
            # A session of its own: a Ctrl-C at the terminal must not end the JVM under a running batch.
            how = {"start_new_session": True, **({"stderr": said} if quiet else {})}
            gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
            return SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, Py4JError, OSError) as exc:
            said.seek(0)
            lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines()]
            causes = [line for line in lines if "xception" in line or "Error" in line] or [
                str(exc).splitlines()[0]
            ]
            raise MachineError(
                f"Spark did not start: {causes[0]}",
                remedy="Run `pgsluice check` for what is missing; --log-level debug shows Spark's own lines",
            ) from exc


@contextlib.contextmanager
def _interrupts_kept() -> Iterator[None]:
    """PySpark installs a SIGINT handler that cancels every job; ours decides what a signal means."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
