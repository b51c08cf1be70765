"""
The Spark session of a run: started when first needed, tuned for small work, closed to the outside.

Starting Spark takes some seconds, which a run that only has a few rows to carry need not wait for.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog

from pgsluice import errors
from pgsluice.errors import JobLostError, MachineError, SluiceError, TransformError
from pgsluice.observability.redact import has_secret, hide_secrets
from pgsluice.pipeline.machine import OLDEST_JAVA, find_java, java_major

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

logger = structlog.get_logger(__name__)

_EVERYWHERE: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A Python task takes 65 ms instead of 96.
    "spark.python.unix.domain.socket.enabled": "true",
    # A worker that crashes leaves its stack in the error; otherwise there is nothing to go by.
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.scheduler.mode": "FAIR",
    # Recording the call site of every column halves the speed of building a frame.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.log.level": "ERROR",
    # Keys of digests are literals of expressions, which Spark would show in its plans.
    "spark.sql.redaction.string.regex": "(?i)(0x|X')[0-9a-f]{128}'?",
}

_LOCAL: Final = {
    # Bound to loopback: nothing of a local run can be reached from another machine.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # The default forks `readlink` some ten times a batch: 92 ms of commits become 23.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


_UNRESOLVED: Final = re.compile(r"unresolved dependency: ([^\]]+)")


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

    def check(self) -> None:
        """Raise for what will keep Spark from starting, long before the first large batch asks for it."""
        _require_jars(_settings(self._options))

    @property
    def ready(self) -> bool:
        """Whether Spark is up, so that :meth:`get` does not wait."""
        return self._session is not None

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine."""
        session = self._session
        master = session.sparkContext.master if session is not None else None
        return (master or self._options.master).startswith("local")

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


def error_of_job(exc: BaseException) -> SluiceError | None:
    """Our error for a job that failed; None where its tasks raised something that is none of ours."""
    if type(exc).__name__ == "Py4JJavaError":
        return _lost_job(str(exc))
    if type(exc).__name__ == "PythonException":
        found = _OWN_ERROR.findall(str(exc))
        return _own_error(*found[-1]) if found else None
    condition = _condition(exc)
    if condition == "USER_RAISED_EXCEPTION" and (raised := _RAISED.search(str(exc))):
        kinds = {getattr(errors, name).code: name for name in errors.__all__}
        return _own_error(kinds.get(raised[1], "SluiceError"), raised[2])
    if condition is not None:
        # Spark's own words show values: those of plain rows, before a modifier has changed them.
        return TransformError(
            f"Spark can't evaluate a modifier's expression: {condition}",
            remedy="Look the condition up in Spark's documentation of error conditions; try_cast and "
            "coalesce help an expression to stand any value",
        )
    return None


def _own_error(name: str, message: str) -> SluiceError:
    kind: type[SluiceError] = getattr(errors, name, SluiceError)
    return kind(message)


def _condition(exc: BaseException) -> str | None:
    """What Spark calls an error of an expression over a value; None for others."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import errors as spark_errors

    kinds = tuple(getattr(spark_errors, name) for name in _OF_EXPRESSIONS)
    return exc.getCondition() if isinstance(exc, kinds) else None


def _lost_job(said: str) -> JobLostError:
    """From what Spark says itself: Py4J's own line, the reason within what it was the reason of, a trace."""
    lines = itertools.takewhile(lambda line: not line.startswith("\tat "), said.splitlines()[1:])
    reason = _AROUND_REASON.sub("", " ".join(map(str.strip, lines))).rstrip(": ")
    return JobLostError(
        f"Spark gave up a job: {hide_secrets(reason)[:_LONGEST_REASON]}",
        remedy="If its Python workers were killed, see the system's log and lower batch.max_bytes; "
        "--log-level debug shows Spark's own lines",
    )


_AROUND_REASON: Final = re.compile(
    r"^: |^.*most recent failure: Lost task [^:]*: |org\.apache\.[\w.]+: | Consider setting .*"
)
_LONGEST_REASON: Final = 300
_OF_EXPRESSIONS: Final = (
    "ArithmeticException",
    "ArrayIndexOutOfBoundsException",
    "DateTimeException",
    "NumberFormatException",
    "SparkRuntimeException",
)
_RAISED: Final = re.compile(r"(SLUICE-[A-Z-]+): ([^\n]*)")
_OWN_ERROR: Final = re.compile(r"^pgsluice\.errors\.(\w+): (.*)$", re.MULTILINE)


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
    settings = _settings(options)
    _require_jars(settings)
    if options.master.startswith("local"):
        # Workers otherwise take the first python3 on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it has to say comes as an exception too
    with _interrupts_kept():
        context = _start_context(settings, quiet=options.quiet)
    return SparkSession(context)


def _settings(options: SparkOptions) -> dict[str, str]:
    settings = {"spark.master": options.master, "spark.app.name": "pgsluice"}
    own = _LOCAL if options.master.startswith("local") else {}
    settings |= {**_EVERYWHERE, **own, **options.conf}
    if options.jars:
        settings["spark.jars"] = ",".join(options.jars)
    if options.packages:
        settings["spark.jars.packages"] = ",".join(options.packages)
    return settings


def _require_jars(settings: Mapping[str, str]) -> None:
    """Spark itself goes on without a jar that it does not find, until a class is missing."""
    for jar in filter(None, map(str.strip, settings.get("spark.jars", "").split(","))):
        scheme, path = urlsplit(jar).scheme, urlsplit(jar).path
        if scheme in ("", "file") and not glob.glob(path):  # noqa: PTH207 - as Spark
            raise MachineError(
                f"spark.jars names {jar}, and there is no such file",
                remedy="Correct the path; a relative one begins at the directory that the run is started in",
            )


def _start_context(settings: Mapping[str, str], *, quiet: bool) -> SparkContext:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    with tempfile.TemporaryFile() as said:
        try:
            # A session of its own: a Ctrl-C at the terminal must not end the JVM under a running batch.
            # Standard output belongs to data: what Ivy says there goes where its other lines go.
            where: Any = {"stdout": said, "stderr": said} if quiet else {"stdout": 2}
            how = {"start_new_session": True, **where}
            gateway = launch_gateway(_conf(_shown(settings)), how)  # type: ignore[no-untyped-call]
            return SparkContext(conf=_conf(settings), gateway=gateway)
        except (PySparkException, Py4JError, OSError) as exc:
            said.seek(0)
            lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines()]
            raise _not_started(lines, exc) from exc


def _not_started(lines: Sequence[str], exc: Exception) -> MachineError:
    """Our words for what Spark said before it gave up."""
    for line in lines:
        if unresolved := _UNRESOLVED.search(line):
            return MachineError(
                f"Spark did not start: a package of spark.packages can't be had: {unresolved[1]}",
                remedy="Check group:artifact:version, and that this machine reaches a repository that has it",
            )
    causes = [line for line in lines if "xception" in line or "Error" in line]
    return MachineError(
        f"Spark did not start: {hide_secrets((causes or str(exc).splitlines())[0])}",
        remedy="Run `pgsluice check` for what is missing; --log-level debug shows Spark's own lines",
    )


def _conf(settings: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def _shown(settings: Mapping[str, str]) -> dict[str, str]:
    """
    What may stand on the JVM's command line, which every user of the machine can read.

    PySpark puts all there that it starts the JVM with. The context's own settings go over the gateway: so
    secrets are among those only. Spark needs none before.
    """
    return {name: value for name, value in settings.items() if not has_secret(name, value)}


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
