"""
How a pipeline is: its slot, its log, its listener and its sinks, with what is wrong and what mends it.

Looks from outside: at the source's catalog and at the files of the state directory. It works while a
run is active and while none is.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pgsluice.changelog.consumers import Consumers
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import BEHIND_REMEDY, LogReader
from pgsluice.changelog.segment import read_meta, segments
from pgsluice.errors import SinkBehindLogError, SluiceError
from pgsluice.pipeline.copy_report import SinkReport, read_reports
from pgsluice.pipeline.letters.desk import is_letters_name
from pgsluice.pipeline.trouble import Trouble, read_troubles
from pgsluice.pipeline.unidentified import UnidentifiedTable, read_unidentified
from pgsluice.source.connect import connect, identify, source_errors, wal_position
from pgsluice.source.event_triggers import has_triggers
from pgsluice.source.handshake import require_log_of
from pgsluice.source.process import listening_process
from pgsluice.source.records import require_pipeline
from pgsluice.source.report import read_report
from pgsluice.source.slot import SlotState, read_slot
from pgsluice.state.dead_letter import LetterBook
from pgsluice.state.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

START_ANEW: Final = (
    "What was written since is lost: pgsluice destroy, then init, and copy again into an empty target"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong, and what to do."""

    code: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """How far one sink is."""

    name: str
    position: str
    lag_bytes: int | None  # of WAL, behind the source
    lag_seconds: float | None  # since the commit of the first transaction that it lacks
    seen: float  # when it last moved (seconds since 1970)
    consistent_from: str | None = None  # the position from which on it is the source of then; None: not known
    consistent: bool | None = None  # whether it is there; None without a copy


@dataclass(frozen=True, slots=True)
class LettersStatus:
    """The rows that one sink's target refused, and that wait."""

    sink: str
    open: int
    oldest: float  # when it was refused (seconds since 1970)


@dataclass(slots=True)
class Status:
    """Everything that ``pgsluice status`` tells."""

    name: str
    running: bool
    source: dict[str, Any] = field(default_factory=dict)
    slot: dict[str, Any] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)
    listener: dict[str, Any] = field(default_factory=dict)
    sinks: list[SinkStatus] = field(default_factory=list)
    letters: list[LettersStatus] = field(default_factory=list)
    copies: list[SinkReport] = field(default_factory=list)
    resyncs: list[str] = field(default_factory=list)  # tables that are or will be copied anew, by sink
    without_identity: list[UnidentifiedTable] = field(default_factory=list)  # rows that the injector met
    problems: list[Problem] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "copies": [copy.as_dict() for copy in self.copies]}


def collect(name: str, url: str, log_dir: Path, state_dir: Path | None = None) -> Status:
    """Look everywhere; what can't be looked at is a problem, not an error."""
    status = Status(name, running=listening_process(log_dir) is not None)
    source = _look_at_source(status, url)
    try:
        _look_at_log(status, log_dir, source)
    except SluiceError as exc:
        status.problems.append(_problem(exc))
    state_dir = state_dir or log_dir.parent
    status.copies = read_reports(state_dir)
    status.sinks = [_with_consistency(sink, status.copies) for sink in status.sinks]
    status.without_identity = read_unidentified(state_dir)
    status.problems += [_trouble(each, running=status.running) for each in read_troubles(state_dir)]
    status.resyncs = [f"{each.sink}: {each.qualified}" for each in Requests(state_dir).open()]
    try:
        _look_at_letters(status, state_dir)
    except SluiceError as exc:
        status.problems.append(_problem(exc))
    return status


def _with_consistency(sink: SinkStatus, copies: Sequence[SinkReport]) -> SinkStatus:
    """Tables that were copied at several points are those of one time once the stream has passed the last."""
    copy = next((copy for copy in copies if copy.sink == sink.name), None)
    if copy is None or not copy.finished:
        return sink if copy is None else replace(sink, consistent=False)
    reached = Lsn.parse(sink.position) >= Lsn.parse(copy.position)
    return replace(sink, consistent_from=copy.position, consistent=reached)


def _look_at_letters(status: Status, state_dir: Path) -> None:
    with closing(LetterBook(state_dir)) as book:
        noted: dict[str, list[float]] = {}
        for letter in book.letters():
            noted.setdefault(letter.sink, []).append(letter.noted_at)
    for sink, times in noted.items():
        status.letters.append(LettersStatus(sink, len(times), min(times)))
        rows = "1 change" if len(times) == 1 else f"{len(times)} changes"
        what = f"{rows} that {sink} could not take wait as dead letters; the change log is kept for them"
        status.problems.append(Problem("SLUICE-DEAD-LETTERS", what, "See them with: pgsluice dlq list"))


@dataclass(frozen=True, slots=True)
class _Source:
    """What the log is held against."""

    system_id: str
    slot: str
    wal_end: Lsn


def _look_at_source(status: Status, url: str) -> _Source | None:
    try:
        with source_errors(url, "read the state of the slot"), connect(url) as connection:
            wal_end = wal_position(connection)
            status.source = {"database": connection.info.dbname, "wal_end": str(wal_end)}
            record = require_pipeline(connection, status.name)
            status.source["publication"] = record.publication
            status.source["notes_schema"] = has_triggers(connection)
            slot = read_slot(connection, record.slot)
            status.slot = _slot_facts(slot)
            status.problems += _slot_problems(slot, running=status.running)
            return _Source(identify(connection).system_id, record.slot, wal_end)
    except SluiceError as exc:
        status.problems.append(_problem(exc))
        return None


def _slot_facts(slot: SlotState) -> dict[str, Any]:
    facts = asdict(slot)
    for key in ("restart_lsn", "confirmed_flush_lsn"):
        facts[key] = str(facts[key]) if facts[key] is not None else None
    return facts


def _slot_problems(slot: SlotState, *, running: bool) -> list[Problem]:
    if not slot.exists:
        what = f"slot {slot.name} does not exist"
        return [Problem("SLUICE-SLOT-MISSING", what, START_ANEW)]
    if slot.lost:
        what = f"the server has invalidated slot {slot.name}"
        return [Problem("SLUICE-SLOT-LOST", what, START_ANEW)]
    if slot.wal_status == "unreserved":
        what = (
            f"slot {slot.name} is about to be lost: WAL that it needs may be removed at the next checkpoint"
        )
        return [Problem("SLUICE-SLOT-AT-RISK", what, "Start the pipeline, or raise max_slot_wal_keep_size")]
    if slot.active_pid is None and running:
        what = f"nobody reads slot {slot.name} although a listener is running"
        return [Problem("SLUICE-SLOT-IDLE", what, "Look at the listener's state below")]
    return []


def _look_at_log(status: Status, log_dir: Path, source: _Source | None) -> None:
    meta = read_meta(log_dir)
    if meta is None:
        status.log = {"path": str(log_dir), "exists": False}
        return
    if source is not None:
        require_log_of(source.system_id, source.slot, log_dir, meta)
    reader = LogReader(log_dir)
    status.log = {
        "path": str(log_dir),
        "exists": True,
        "first": str(reader.first_lsn),
        "end": str(reader.end),
        "segments": len(segments(log_dir)),
        "bytes": sum(segment.data.stat().st_size for segment in segments(log_dir)),
    }
    report = read_report(log_dir)
    if report is not None:
        status.listener = asdict(report)
        status.problems += _listener_problems(status, log_dir)
    for consumer in Consumers(log_dir).all():
        if is_letters_name(consumer.name):
            continue
        behind = max(source.wal_end - consumer.lsn, 0) if source is not None else None
        waiting = reader.commit_time_after(consumer.lsn) if consumer.lsn >= reader.first_lsn else None
        lag = None if waiting is None else round(time.time() - waiting, 3)
        status.sinks.append(SinkStatus(consumer.name, str(consumer.lsn), behind, lag or 0.0, consumer.seen))
        if consumer.lsn < reader.first_lsn:
            what = (
                f"{consumer.name} stands at {consumer.lsn}, but the change log begins at {reader.first_lsn}"
            )
            status.problems.append(Problem(SinkBehindLogError.code, what, BEHIND_REMEDY))


def _listener_problems(status: Status, log_dir: Path) -> list[Problem]:
    report = status.listener
    if report["state"] == "failed" and report["error"]:
        error = report["error"]
        return [Problem(error["code"], error["message"], error["remedy"])]
    if report["state"] == "full" and status.running:
        return [_full_log(log_dir)]
    if report["state"] == "reconnecting" and status.running:
        return [Problem("SLUICE-SOURCE-UNREACHABLE", report["reason"], "It is tried again until it works")]
    return []


def _full_log(log_dir: Path) -> Problem:
    slowest = min(Consumers(log_dir).all(), key=lambda consumer: consumer.lsn, default=None)
    if slowest is not None and is_letters_name(slowest.name):
        what = "the change log is full of what it keeps for dead letters, so nothing is read from the source"
        remedy = "See them with pgsluice dlq list, then replay or discard them; or raise log.max_bytes"
        return Problem("SLUICE-LOG-FULL", what, remedy)
    what = "the change log is full, so nothing is read from the source"
    return Problem("SLUICE-LOG-FULL", what, "Mend the slowest sink below, or raise log.max_bytes")


def _trouble(trouble: Trouble, *, running: bool) -> Problem:
    how = "has stopped" if trouble.ended or not running else "tries again"
    return Problem(trouble.code, f"{trouble.sink} {how}: {trouble.message}", trouble.remedy)


def _problem(exc: SluiceError) -> Problem:
    return Problem(exc.code, exc.message, exc.remedy)
