"""
The listener: reads one replication slot and appends what it reads to the change log.

It knows nothing of tables' meaning. One thread reads the socket and appends, another makes the log
durable, so the disk works while the socket is read. The slot is confirmed when the log is durable,
never before and never by a timer. :mod:`pgsluice.source.process` runs it in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import structlog

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.log import SEGMENT_BYTES, LogWriter
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.scan import MORE, OTHER, Scanner
from pgsluice.errors import (
    LogTooSmallError,
    LogUnwritableError,
    SlotTakenError,
    SluiceError,
    SourceUnreachableError,
)
from pgsluice.observability.failpoints import failpoint
from pgsluice.source import replication
from pgsluice.source.connect import connect, source_errors
from pgsluice.source.handshake import open_stream
from pgsluice.source.query.consumer import expire
from pgsluice.source.report import ListenerReport, write_report

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.changelog.lock import LogLock
    from pgsluice.source.replication import ReplicationStream

logger = structlog.get_logger(__name__)

Confirm = Literal["log", "sinks"]
Origin = Literal["any", "none"]
"""Whether changes that the source itself replicated from elsewhere are wanted."""

_FEEDBACK_SECONDS: Final = 0.05  # at most this often while the log moves
_ASK_SECONDS: Final = 1.0  # how often an idle server is asked how far it has looked, which is then kept
_ASK_SECONDS_AT_FIRST: Final = 0.05  # a run that ends when it has caught up waits for the answer
_ASK_SLOWER: Final = 4.0  # after so many seconds it is asked at the usual pace
_SILENCE_SECONDS: Final = 120.0  # twice what the server itself allows a client by default
_CHORES_SECONDS: Final = 0.5
_UNSYNCED_BYTES: Final = 8 << 20  # of one open transaction before the disk is asked to take it
_MEASURE_BYTES: Final = 1 << 20  # at least, between two looks at a log that grows fast
_LOW_WATER: Final = 0.8  # of max_bytes: where a full log is read into again
_TAKEN_SECONDS: Final = 5.0  # an earlier run's walsender may need a moment to see that it is gone
_BACKOFF: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class ListenerOptions:
    """What a listener has to know."""

    url: str
    slot: str
    publications: tuple[str, ...]
    log: Path
    max_bytes: int
    pipeline: str | None = None  # whose record on the source is compared at every connection
    retention: float = 0.0  # seconds that a segment stays although everybody has passed it
    confirm: Confirm = "log"
    origin: Origin = "any"
    heartbeat: float = 0.0  # seconds between transactional messages; 0 for none
    segment_bytes: int | None = None  # by default a size that fits max_bytes
    lease: float = 0.0  # stop when no consumer has been seen for so long; 0 for never

    @property
    def bytes_per_segment(self) -> int:
        """Only whole segments are thrown away, so a small log has small ones."""
        return self.segment_bytes or max(min(SEGMENT_BYTES, self.max_bytes // 8), 1)


Opener = Callable[[ListenerOptions, LogWriter | None], tuple[replication.ReplicationStream, LogWriter]]
"""Connects and compares; gives a stream that starts at the log's end, and the log."""


class _LogFullError(Exception):
    """The log has reached its bound."""


class Listener:
    """One slot, one log."""

    def __init__(self, options: ListenerOptions, lock: LogLock, connect_stream: Opener = open_stream) -> None:
        self._options = options
        self._lock = lock
        self._connect_stream = connect_stream
        self._consumers = Consumers(options.log)
        self._scanner = Scanner(replication.BUFFER_BYTES, local_only=options.origin == "none")
        self._writer: LogWriter | None = None
        self._stopping = threading.Event()
        self._report = ListenerReport(pid=os.getpid(), state="starting", slot=options.slot)
        self._heartbeat_at = time.monotonic()
        self._started = time.time()
        self._has_streamed = False

    def stop(self) -> None:
        """Finish what was read and end; safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Stream until stopped; connect again after what may pass, raise what won't."""
        attempt = 0
        while not self._stopping.is_set():
            try:
                self._session()
                attempt = 0
            except _LogFullError:
                self._wait_for_room()
            except (SluiceError, OSError) as exc:
                if self._is_final(exc):
                    self._fail(exc)
                    raise
                attempt = 0 if self._report.state == "streaming" else attempt + 1
                self._pause(attempt, exc)
        self._say(state="stopped")

    def _is_final(self, exc: Exception) -> bool:
        """Whether trying again can't help: also when a slot was taken by another before we ever had it."""
        if isinstance(exc, SlotTakenError):
            return not self._has_streamed and time.time() - self._started > _TAKEN_SECONDS
        return isinstance(exc, SluiceError) and not exc.transient

    def _fail(self, exc: Exception) -> None:
        if isinstance(exc, SluiceError):
            self._say(state="failed", error=exc.as_dict() | {"class": type(exc).__name__})

    def close(self) -> None:
        """Close the log's files."""
        if self._writer is not None:
            self._writer.close()

    def _session(self) -> None:
        """One connection, from its checks to its end."""
        stream, self._writer = self._connect_stream(self._options, self._writer)
        try:
            self._writer.cut(self._scanner)
            _Session(self, stream, self._writer).run()
        finally:
            stream.close()

    def _wait_for_room(self) -> None:
        """Nothing is read and no connection held until consumers have let go of enough."""
        assert self._writer is not None
        size = self._writer.total_bytes()
        logger.warning("log full, connection closed", bytes=size, max_bytes=self._options.max_bytes)
        self._say(state="full")
        while not self._stopping.wait(_CHORES_SECONDS):
            self.purge()
            if self._is_passed():
                self._writer.begin_anew(self._scanner)
            if self._writer.total_bytes() <= self._options.max_bytes * _LOW_WATER:
                logger.info("log has room again")
                return

    def _is_passed(self) -> bool:
        """Whether no consumer needs anything that is in the log."""
        released = self.released()
        return self._writer is not None and released is not None and released >= self._writer.end

    def _pause(self, attempt: int, exc: Exception) -> None:
        seconds = _BACKOFF[min(attempt, len(_BACKOFF) - 1)]
        logger.warning("connection lost, trying again", seconds=seconds, reason=str(exc))
        self._say(state="reconnecting", reason=str(exc), reconnects=self._report.reconnects + 1)
        self._stopping.wait(seconds)

    @property
    def options(self) -> ListenerOptions:
        """What this listener was started with."""
        return self._options

    @property
    def scanner(self) -> Scanner:
        """The compiled pass with its state."""
        return self._scanner

    @property
    def stopping(self) -> bool:
        """Whether the listener was asked to end."""
        return self._stopping.is_set()

    def released(self) -> Lsn | None:
        """What every consumer has passed; None while there is no consumer."""
        return min((consumer.lsn for consumer in self._consumers.all()), default=None)

    def confirmable(self, durable: Lsn) -> Lsn:
        """How far the slot may be confirmed."""
        if self._options.confirm == "log":
            return durable
        kept = [consumer.lsn for consumer in self._consumers.all() if consumer.durable]
        return min(durable, *kept) if kept else Lsn(0)

    def purge(self) -> None:
        """Throw segments away that nobody needs."""
        for query in expire(self._options.log):
            logger.warning("a query that was not seen for long no longer holds the log", query=query)
        released = self.released()
        if released is not None and self._writer is not None:
            self._writer.purge(released, self._options.retention)

    def chores(self, **facts: Any) -> None:
        """What has to be done now and then, however much traffic there is."""
        self._lock.check()
        self.purge()
        assert self._writer is not None
        size = self._writer.total_bytes()
        self._has_streamed = True
        self._say(state="streaming", log_bytes=size, **facts)
        self._beat()
        if self._options.lease and self._abandoned():
            logger.info("no reader left, stopping")
            self.stop()
        if size >= self._options.max_bytes:
            self._writer.sync()  # so that whole transactions that only wait for the disk count as such
            self._require_that_it_can_end()
            raise _LogFullError

    def _require_that_it_can_end(self) -> None:
        """A transaction that fills the log all by itself would be read, cut and read again for ever."""
        assert self._writer is not None
        alone = self._scanner.in_transaction and self._writer.unfinished_bytes() >= self._options.max_bytes
        if alone and self._is_passed():
            raise LogTooSmallError(
                f"one transaction after {self._writer.end} needs more than "
                f"log.max_bytes ({self._options.max_bytes})",
                remedy="Raise log.max_bytes; nothing was lost",
            )

    def _abandoned(self) -> bool:
        last = max((consumer.seen for consumer in self._consumers.all()), default=self._started)
        return time.time() - max(last, self._started) > self._options.lease

    def _beat(self) -> None:
        """A transactional message, so that the slot moves although only other databases are busy."""
        if not self._options.heartbeat or time.monotonic() - self._heartbeat_at < self._options.heartbeat:
            return
        self._heartbeat_at = time.monotonic()
        with source_errors(self._options.url, "write a heartbeat"), connect(self._options.url) as connection:
            connection.execute("SELECT pg_catalog.pg_logical_emit_message(true, 'pgsluice.heartbeat', '')")

    def _say(self, **facts: Any) -> None:
        self._report = self._report.with_(**facts)
        write_report(self._options.log, self._report)


class _Session:
    """The loop over one connection."""

    def __init__(self, listener: Listener, stream: ReplicationStream, writer: LogWriter) -> None:
        self._listener = listener
        self._stream = stream
        self._writer = writer
        self._scanner = listener.scanner
        self._syncer = _Syncer(writer)
        self._unsynced = 0
        self._unsynced_limit = min(_UNSYNCED_BYTES, max(listener.options.max_bytes // 8, 1))
        self._unmeasured = 0  # bytes since the log's size was last looked at
        self._measure_bytes = max(listener.options.max_bytes // 16, _MEASURE_BYTES)
        self._confirmed = Lsn(0)
        self._watermark = Lsn(0)
        now = time.monotonic()
        self._began = now
        self._fed_back_at = self._asked_at = self._watermark_at = self._chores_at = self._heard_at = now

    def run(self) -> None:
        """Read, append, make durable, confirm; ends when the listener is stopped."""
        self._syncer.start()
        self._feedback(ask_reply=True)
        self._listener.chores(confirmed=str(self._confirmed), durable=str(self._writer.end))
        try:
            while not self._listener.stopping:
                self._stream.fill(self._patience(), self._syncer.wake)
                self._require_a_sign_of_life()
                self._take()
                self._tend()
            self._syncer.finish()
            self._feedback()
        finally:
            self._syncer.stop()

    def _require_a_sign_of_life(self) -> None:
        """Raise when the server has said nothing for long, although it is asked every second."""
        now = time.monotonic()
        if self._stream.size:
            self._heard_at = now
        elif now - self._heard_at > _SILENCE_SECONDS:
            raise SourceUnreachableError(f"the server has not answered for {_SILENCE_SECONDS:.0f} s")

    def _patience(self) -> float:
        return 0.05 if self._syncer.durable > self._confirmed else min(0.2, self._pace(time.monotonic()))

    def _pace(self, now: float) -> float:
        """The seconds between two questions to an idle server, and between two positions that are kept."""
        slowing = _ASK_SECONDS * (now - self._began) / _ASK_SLOWER
        return min(max(slowing, _ASK_SECONDS_AT_FIRST), _ASK_SECONDS)

    def _take(self) -> None:
        """Move what has arrived into the log."""
        while True:
            scanned = self._scanner.scan(self._stream.buffer, self._stream.size)
            if len(scanned.frames):
                self._writer.append(scanned, self._scanner)
                self._unsynced += len(scanned.frames)
                self._unmeasured += len(scanned.frames)
            self._stream.consume(scanned.consumed)
            if scanned.reason == OTHER:
                before = self._stream.size
                self._stream.take_other()
                if self._stream.size == before:  # only a part of it has arrived
                    break
            elif scanned.reason == MORE:
                break
        if not self._scanner.in_transaction or self._unsynced >= self._unsynced_limit:
            if self._unsynced:
                self._syncer.request()
            self._unsynced = 0

    def _tend(self) -> None:
        now = time.monotonic()
        asked = self._scanner.take_reply_request()
        self._note_watermark(now, urgent=asked)
        self._syncer.check()
        moved = self._syncer.durable > self._confirmed
        if asked or (moved and now - self._fed_back_at >= _FEEDBACK_SECONDS):
            self._feedback()
        if now - self._asked_at >= self._pace(now):
            self._asked_at = now
            self._feedback(ask_reply=True)
        if now - self._chores_at >= _CHORES_SECONDS or self._unmeasured >= self._measure_bytes:
            self._chores_at = now
            self._unmeasured = 0
            self._listener.chores(
                durable=str(self._writer.end),
                confirmed=str(self._confirmed),
                wal_end=str(Lsn(self._scanner.wal_end)),
                reason="",
            )

    def _note_watermark(self, now: float, *, urgent: bool) -> None:
        """A keepalive's position is made durable first, then confirmed."""
        position = Lsn(self._scanner.wal_end)
        if self._scanner.in_transaction or position <= max(self._watermark, self._writer.end):
            return
        if urgent or now - self._watermark_at >= self._pace(now):
            self._watermark, self._watermark_at = position, now
            self._writer.watermark(position)
            self._syncer.finish() if urgent else self._syncer.request()

    def _feedback(self, *, ask_reply: bool = False) -> None:
        durable = self._syncer.durable
        confirmed = max(self._listener.confirmable(durable), self._confirmed)
        failpoint("listener.before_confirm")
        self._stream.send_status(durable, confirmed, ask_reply=ask_reply)
        failpoint("listener.after_confirm")
        self._confirmed = confirmed
        self._fed_back_at = time.monotonic()


class _Syncer(threading.Thread):
    """Makes the log durable behind the reading thread's back, one sync after another."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__(name="log-sync", daemon=True)
        self._writer = writer
        self._wanted = threading.Condition()
        self._requests = 0
        self._done = 0
        self._ending = False
        self._error: BaseException | None = None
        self.wake, self._bell = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self._bell, False)
        self.durable = writer.end

    def request(self) -> None:
        """Ask for a sync of everything that was appended before."""
        with self._wanted:
            self._requests += 1
            self._wanted.notify_all()

    def finish(self) -> None:
        """Wait until everything that was appended before is durable."""
        self.request()
        with self._wanted:
            goal = self._requests
            self._wanted.wait_for(lambda: self._done >= goal or self._error is not None)
        self.check()

    def check(self) -> None:
        """Raise what stopped the thread, and silence its bell."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 4096)
        if self._error is not None:
            raise LogUnwritableError(
                f"the change log could not be written: {self._error}; what it lacks is read again"
            ) from self._error

    def stop(self) -> None:
        """End the thread; what it has not synced is cut later."""
        with self._wanted:
            self._ending = True
            self._wanted.notify_all()
        self.join()
        os.close(self.wake)
        os.close(self._bell)

    def run(self) -> None:
        """Sync as long as there is something to sync."""
        while True:
            with self._wanted:
                self._wanted.wait_for(lambda: self._ending or self._requests > self._done)
                if self._ending:
                    return
                goal = self._requests
            try:
                durable = self._writer.sync()
            except OSError as exc:
                self._error = exc
            with self._wanted:
                if self._error is None:
                    self.durable = durable
                    self._done = goal
                self._wanted.notify_all()
            with contextlib.suppress(BlockingIOError):
                os.write(self._bell, b"!")
            if self._error is not None:
                return
