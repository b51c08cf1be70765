"""
The listener as a process of its own, and the handle by which others start, watch and stop it.

A process, because the Spark driver's pauses must not stall the stream, and because it has a life of
its own beside readers that come and go. The options travel over its standard input, so no password is
ever in the process list; for a listener that belongs to a run, the end of that pipe is its order to stop.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from pgsluice import errors
from pgsluice.changelog.lock import LogLock, holder
from pgsluice.changelog.segment import read_meta
from pgsluice.errors import MachineError, SluiceError, SourceError
from pgsluice.source.listener import Listener, ListenerOptions
from pgsluice.source.report import read_report

_LOCK_WAIT = 10.0  # seconds that an earlier owner has to end


class ListenerProcess:
    """
    A listener that was started by us.

    Args:
        log_file: where its log lines go; by default to our standard error, which one with a lease outlives.
    """

    def __init__(
        self,
        options: ListenerOptions,
        *,
        log_level: str = "info",
        log_format: str = "console",
        log_file: Path | None = None,
    ) -> None:
        self._options = options
        self._log_file = log_file
        self._settings = {"log_level": log_level, "log_format": log_format, "detached": options.lease > 0}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns before it streams."""
        prepare_directory(self._options.log)
        with contextlib.ExitStack() as files:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pgsluice.source.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,  # where it says what ended it
                stderr=files.enter_context(_appending(self._log_file)) if self._log_file else None,
                start_new_session=True,  # a Ctrl-C at the terminal is for the run, which stops us in order
            )
        options = {**asdict(self._options), "log": str(self._options.log)}
        stdin = _pipe(self._process.stdin)
        stdin.write(json.dumps({**self._settings, "options": options}).encode() + b"\n")
        stdin.flush()

    @property
    def pid(self) -> int | None:
        """Of the listener, while there is one."""
        return self._process.pid if self._process else None

    def wait_until_streaming(self, timeout: float) -> None:
        """Return when the log exists and the listener streams; raise what stopped it."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.check():
                self.start()  # it was killed before it came so far
            report = read_report(self._options.log)
            ours = report is not None and report.pid == self.pid
            if report and ours and report.state in ("streaming", "full") and read_meta(self._options.log):
                return
            time.sleep(0.02)
        report = read_report(self._options.log)
        raise SourceError(
            f"the listener did not start to stream within {timeout:.0f} s"
            + (f": {report.reason}" if report and report.reason else ""),
            remedy="Look at its log lines with --log-level debug",
        )

    def check(self) -> bool:
        """Whether it lives; raises the error that ended it for good, gives False when it was killed."""
        if self._process is None or self._process.poll() is None:
            return self._process is not None
        said = _pipe(self._process.stdout).read()
        if said:
            raise _error(json.loads(said))
        return False

    def stop(self, timeout: float = 15.0) -> None:
        """Ask it to finish; end it when it doesn't."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            _pipe(self._process.stdin).close()
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()
        self._process = None


def prepare_directory(directory: Path) -> None:
    """Make a directory of ours, for its owner only, and see that it can be written to."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = directory / f".probe.{os.getpid()}"
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as exc:
        raise MachineError(
            f"can't write to {directory}: {exc.strerror or exc}",
            remedy="Choose another --state-dir, or mend its rights",
        ) from exc


def listening_process(log: Path) -> int | None:
    """The process id of the listener that owns a log, or None."""
    return holder(log / "lock")


def _appending(path: Path) -> IO[bytes]:
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _error(fields: dict[str, Any]) -> SluiceError:
    """The error of the listener, as if it had been raised here."""
    rest = dict(fields)
    kind = getattr(errors, rest.pop("class", ""), SourceError)
    rest.pop("code", None)
    built: SluiceError = kind(rest.pop("message"), remedy=rest.pop("remedy", ""), **rest)
    return built


def main() -> int:
    """The child: read the options, take the lock, listen until told to stop."""
    from pgsluice.observability.logs import configure

    settings = json.loads(sys.stdin.readline())
    configure(level=settings["log_level"], format=settings["log_format"], color=False)
    fields = settings["options"]
    options = ListenerOptions(
        **{**fields, "log": Path(fields["log"]), "publications": tuple(fields["publications"])}
    )
    lock = LogLock(options.log / "lock")
    try:
        lock.acquire(wait=_LOCK_WAIT)
        listener = Listener(options, lock)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: listener.stop())
        if not settings["detached"]:
            threading.Thread(target=_stop_with_parent, args=(listener,), daemon=True).start()
        gc.freeze()  # what is loaded stays: each collection would walk through all of numba
        try:
            listener.run()
        finally:
            listener.close()
    except SluiceError as exc:
        with contextlib.suppress(BrokenPipeError):  # a detached one outlives who started it
            sys.stdout.write(json.dumps(exc.as_dict() | {"class": type(exc).__name__}, default=str))
            sys.stdout.flush()
        return exc.exit_code
    finally:
        lock.release()
    return 0


def _stop_with_parent(listener: Listener) -> None:
    sys.stdin.read()
    listener.stop()


if __name__ == "__main__":
    sys.exit(main())
