"""
The writing side of the change log: append, make durable, cut, roll, throw away.

One process writes a log (:mod:`pgsluice.changelog.lock`). Bytes come from :mod:`pgsluice.changelog.scan`.
The order that everything rests on: data is synced, then the index, and only then may the slot be
confirmed; ``end`` never says more than that. ``append`` and ``sync`` may run in two threads, so that the
disk works while the socket is read.
"""

from __future__ import annotations

import os
import secrets
import struct
import threading
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from pgsluice.changelog import index
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.scan import DESCRIPTIONS, FRAME_HEAD, HEADER
from pgsluice.changelog.segment import LogMeta, Segment, segments, sync_directory, write_meta
from pgsluice.errors import LogFormatError
from pgsluice.observability.failpoints import failpoint

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.changelog.scan import Scanned, Scanner

SEGMENT_BYTES: Final = (
    64 << 20
)  # large enough that opening files costs nothing, small enough to let go of soon

_LSN_AT: Final = 4
_LSN: Final = struct.Struct("<Q")

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class _OpenSegment:
    """A segment that is being written: its files, and the index records that wait for their data."""

    def __init__(self, segment: Segment, size: int, index_size: int) -> None:
        self.segment = segment
        self.data = os.open(segment.data, os.O_WRONLY | os.O_CREAT, 0o600)
        self.index = os.open(segment.index, os.O_WRONLY | os.O_CREAT, 0o600)
        os.ftruncate(self.data, size)
        os.ftruncate(self.index, index_size)
        os.lseek(self.data, size, os.SEEK_SET)
        os.lseek(self.index, index_size, os.SEEK_SET)
        self.size = size
        self.dirty = True  # holds bytes that no sync has covered
        self.pending: list[index.Records] = []

    def close(self) -> None:
        os.close(self.data)
        os.close(self.index)


class LogWriter:
    """The change log, for its one writer."""

    def __init__(self, directory: Path, meta: LogMeta, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()  # guards the open segments and their pending records
        self._syncing = threading.Lock()  # one sync or cut at a time
        self._appended = Lsn(0)  # end of the last whole transaction that was appended
        self._open: list[_OpenSegment] = []
        self._new_names = True
        self._carried: dict[tuple[int, int], bytes] = {}  # Relation and Type frames of this connection
        self._unplaced: list[tuple[int, int]] = []  # of these, those whose first change has not come yet
        self.end = Lsn(0)
        index.seal(np.empty(0, index.RECORD))  # loads the machine code now and not with the first commit
        write_meta(directory, meta)
        self._recover(Lsn.parse(meta.start_lsn))

    @property
    def offset(self) -> int:
        """Where the next byte goes in the segment that is being written."""
        return self._open[-1].size

    @property
    def unsynced(self) -> bool:
        """Whether something waits for :meth:`sync`."""
        with self._lock:
            return any(segment.pending for segment in self._open)

    def append(self, scanned: Scanned, scanner: Scanner) -> None:
        """Write frames, not yet durable; begins a new segment when this one is full."""
        current = self._open[-1]
        _write_all(current.data, scanned.frames)
        self._place(scanned.frames, 0)
        self._carry(scanned, current.size)
        with self._lock:
            current.size += len(scanned.frames)
            current.dirty = True
            if len(scanned.records):
                current.pending.append(scanned.records)
                self._appended = Lsn(max(self._appended, _last_end(scanned.records)))
        if current.size >= self._segment_bytes:
            self._roll(scanner)

    def watermark(self, lsn: Lsn) -> None:
        """Note that the stream has nothing for us up to ``lsn``; durable after the next sync."""
        record = np.zeros(1, index.RECORD)
        record["kind"] = index.WATERMARK
        record["end_lsn"] = lsn
        with self._lock:
            record["offset"] = self._open[-1].size
            self._open[-1].pending.append(record)

    def sync(self) -> Lsn:
        """
        Make what was appended durable: data, then names, then the index. Gives the new end.

        When it raises, nothing may be believed but the old end: a failed sync is never tried again,
        the log is cut and read from the slot once more.
        """
        with self._syncing:
            with self._lock:
                work = [(segment, segment.pending) for segment in self._open]
                for segment in self._open:
                    segment.pending, segment.dirty = [], False
                new_names, self._new_names = self._new_names, False
            failpoint("log.before_data_sync")
            for segment, _ in work:
                _sync(segment.data)
            if new_names:
                sync_directory(self._directory)
            failpoint("log.after_data_sync")
            end = self.end
            for segment, pending in work:
                if pending:
                    records = np.concatenate(pending)
                    _write_all(segment.index, memoryview(index.seal(records)))
                    failpoint("log.before_index_sync")
                    _sync(segment.index)
                    end = Lsn(max(end, _last_end(records)))
            failpoint("log.after_index_sync")
            self._close_full()
            self.end = end
            return end

    def cut(self, scanner: Scanner) -> None:
        """Throw away what follows the last whole transaction: the connection is new, or a write failed."""
        with self._syncing:
            self._close_all()
            self._recover(self.end, durable=self.end)
            scanner.reset(self.offset)

    def purge(self, released: Lsn, keep_seconds: float) -> int:
        """Remove segments that every consumer has passed and whose time is over; gives how many."""
        found = segments(self._directory)
        removed = 0
        newest_allowed = time.time() - keep_seconds
        for number, segment in enumerate(found[:-1]):
            # The first unit that ends after this segment may have begun inside it.
            first_end = next(filter(None, map(_first_end, found[number + 1 :])), None)
            if first_end is None or first_end > released or segment.data.stat().st_mtime > newest_allowed:
                break
            segment.data.unlink()
            segment.index.unlink(missing_ok=True)
            removed += 1
        return removed

    def begin_anew(self, scanner: Scanner) -> None:
        """Remove every segment and go on in a new one: all of it was passed, and nothing is connected."""
        with self._syncing:
            self._close_all()
            old = segments(self._directory)
            ordinal = old[-1].ordinal + 1 if old else 1
            self._open = [_OpenSegment(Segment(self.end, ordinal, self._directory), 0, 0)]
            self._carried, self._unplaced = {}, []
            sync_directory(self._directory)
            for segment in reversed(old):  # a reader in between must find the beginning where it was
                segment.data.unlink(missing_ok=True)
                segment.index.unlink(missing_ok=True)
            scanner.reset(self.offset)

    def unfinished_bytes(self) -> int:
        """What the transaction takes that is being written, of which the index has no end."""
        size = 0
        for segment in reversed(segments(self._directory)):
            whole = index.end_of_units(index.load(segment.index))
            size += segment.data.stat().st_size - whole
            if whole:
                break
        return size

    def total_bytes(self) -> int:
        """What the log takes on disk."""
        return sum(
            path.stat().st_size
            for s in segments(self._directory)
            for path in (s.data, s.index)
            if path.exists()
        )

    def close(self) -> None:
        """Close the files; what was not synced is cut by the next writer."""
        self._close_all()

    def _recover(self, start: Lsn, durable: Lsn | None = None) -> None:
        """
        Find the last whole transaction and cut everything after it.

        Args:
            start: where the stream begins if the log is empty.
            durable: believe nothing beyond this; None after a restart, when all that can be read is
                synced first.
        """
        self._carried, self._unplaced = {}, []
        self._new_names = True
        found = segments(self._directory)
        removed = False
        while found:
            last = found[-1]
            records = index.load(last.index)
            ends = np.flatnonzero(index.is_unit(records) | (records["kind"] == index.WATERMARK))
            if durable is not None:
                ends = ends[records["end_lsn"][ends] <= durable]
            if len(ends) == 0 and len(found) > 1:
                last.data.unlink(missing_ok=True)
                last.index.unlink(missing_ok=True)
                found.pop()
                removed = True
                continue
            kept = int(ends[-1]) + 1 if len(ends) else 0
            size = int(records["offset"][kept - 1]) if kept else 0
            if not last.data.exists() or last.data.stat().st_size < size:
                raise LogFormatError(
                    f"{last.data} is shorter than its index says ({size} bytes)",
                    remedy="It was damaged from outside: restore it, or remove the log and copy again",
                )
            self._open = [_OpenSegment(last, size, kept * index.RECORD.itemsize)]
            if removed or kept < len(records):
                # At once: what is pending goes with the next cut, and each connection begins with one.
                _write_all(self._open[0].index, memoryview(index.seal(_note_of_cut(size))))
            if durable is None:
                _sync_all(found)
            self.end = self._appended = max(last.after, Lsn(_last_end(records[:kept])))
            return
        self._open = [_OpenSegment(Segment(start, 1, self._directory), 0, 0)]
        self.end = self._appended = start

    def _roll(self, scanner: Scanner) -> None:
        """Begin a segment that can be read on its own: known relations, then the open transaction's mark."""
        fresh = _OpenSegment(
            Segment(self._appended, self._open[-1].segment.ordinal + 1, self._directory), 0, 0
        )
        records = []
        for (kind, relid), frame in self._carried.items():
            record = np.zeros(1, index.RECORD)
            record["kind"], record["relid"], record["offset"] = kind, relid, fresh.size
            records.append(record)
            _write_all(fresh.data, memoryview(frame))
            fresh.size += len(frame)
        records.append(scanner.move_to(fresh.size))
        with self._lock:
            fresh.pending = [r for r in records if len(r)]
            self._new_names = True
            self._open.append(fresh)

    def _carry(self, scanned: Scanned, base: int) -> None:
        records = scanned.records
        for record in records[(records["kind"] == index.RELATION) | (records["kind"] == index.TYPE)]:
            at = int(record["offset"]) - base
            length = int.from_bytes(scanned.frames[at : at + 4], "little")
            frame = bytes(scanned.frames[at : at + HEADER + length])
            key = int(record["kind"]), int(record["relid"])
            self._carried[key] = frame
            self._unplaced.append(key)
            self._place(scanned.frames, at)

    def _place(self, frames: memoryview, at: int) -> None:
        """Note in frames that are carried on before which change they were sent: they have no other place."""
        while self._unplaced and at < len(frames):
            length, lsn, kind = FRAME_HEAD.unpack_from(frames, at)
            if kind not in DESCRIPTIONS:
                for key in self._unplaced:
                    frame = self._carried[key]
                    self._carried[key] = frame[:_LSN_AT] + _LSN.pack(lsn) + frame[HEADER:]
                self._unplaced = []
            at += HEADER + length

    def _close_full(self) -> None:
        with self._lock:
            while len(self._open) > 1 and not (self._open[0].pending or self._open[0].dirty):
                self._open.pop(0).close()

    def _close_all(self) -> None:
        with self._lock:
            for segment in self._open:
                segment.close()
            self._open = []


def _note_of_cut(offset: int) -> index.Records:
    """For those who had begun to read what is gone: see :mod:`pgsluice.changelog.arriving`."""
    record = np.zeros(1, index.RECORD)
    record["kind"], record["offset"], record["seq"] = index.CUT, offset, secrets.randbits(62)
    return record


def _last_end(records: index.Records) -> int:
    return int(records["end_lsn"].max(initial=0))


def _first_end(segment: Segment) -> int | None:
    records = index.load(segment.index)
    units = np.flatnonzero(index.is_unit(records))
    return int(records["end_lsn"][units[0]]) if len(units) else None


def _sync_all(found: list[Segment]) -> None:
    """Sync every segment: a killed writer may have left bytes that only memory holds."""
    for path in (path for segment in found for path in (segment.data, segment.index)):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_all(handle: int, content: memoryview) -> None:
    while len(content):
        content = content[os.write(handle, content) :]
