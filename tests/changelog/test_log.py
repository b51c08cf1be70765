"""The change log without a server: what is written is read back, whatever is cut, rolled or torn."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest

from pgsluice.changelog import index
from pgsluice.changelog.log import LogWriter
from pgsluice.changelog.plan import LogSlice
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.changelog.scan import HEADER, OTHER, Scanner
from pgsluice.changelog.segment import LogMeta, segments
from pgsluice.errors import DecodeError, LogFormatError, SinkBehindLogError
from tests.changelog.wire import keepalive, wire

META = LogMeta("7001", 1, "slot", "pub", "0/64")


def transaction(commit: int, rows: list[bytes], relations: tuple[int, ...] = ()) -> list[bytes]:
    """Begin, Relations, rows (as opaque Insert bodies) and Commit."""
    return [
        b"B" + struct.pack(">qqI", commit, commit * 10, commit % 1000),
        *(b"R" + struct.pack(">I", relid) + b"relation" for relid in relations),
        *(b"I" + row for row in rows),
        b"C" + struct.pack(">bqqq", 0, commit, commit + 8, commit * 10),
    ]


def feed(writer: LogWriter, scanner: Scanner, messages: list[bytes]) -> None:
    """Append messages, in pieces as a socket would give them."""
    data = b"".join(wire(m) for m in messages)
    pending = b""
    for at in range(0, len(data), 777):
        pending += data[at : at + 777]
        scanned = scanner.scan(np.frombuffer(pending, np.uint8), len(pending))
        writer.append(scanned, scanner)
        pending = pending[scanned.consumed :]
    assert pending == b""


def frames(slice_: LogSlice) -> list[bytes]:
    """The messages of a slice, read the plain way, Relations and Types left out."""
    found = []
    for range_ in slice_.ranges:
        data = Path(range_.path).read_bytes()
        at = range_.start
        while at < range_.end:
            (length,) = struct.unpack_from("<I", data, at)
            message = data[at + HEADER : at + HEADER + length]
            if message[:1] not in b"RY":
                found.append(message)
            at += HEADER + length
        assert at == range_.end
    return found


def read_all(directory: Path, after: Lsn, max_bytes: int, range_bytes: int) -> list[bytes]:
    """Everything after a position, slice by slice."""
    reader = LogReader(directory)
    found: list[bytes] = []
    while (piece := reader.next(after, max_bytes, range_bytes)) is not None:
        assert piece.start == after
        assert piece.end > after
        found += frames(piece)
        after = piece.end
    assert after <= reader.end
    return found


@pytest.mark.parametrize("segment_bytes", [1 << 11, 1 << 14, 1 << 26])
def test_everything_comes_back_in_order_from_any_transaction(tmp_path: Path, segment_bytes: int) -> None:
    """Random transactions over many segments are read back from every end, with any limit."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=segment_bytes), Scanner(1 << 16)
    scanner.reset(writer.offset)
    history: list[tuple[int, list[bytes]]] = []
    commit = 100
    for number in range(60):
        commit += rng.randrange(16, 400)
        messages = transaction(
            commit, [rng.randbytes(rng.randrange(900)) for _ in range(rng.randrange(9))], (number % 5,)
        )
        feed(writer, scanner, messages)
        history.append((commit + 8, [m for m in messages if m[:1] != b"R"]))
        if rng.random() < 0.5:
            writer.sync()
    assert writer.sync() == history[-1][0]
    assert LogReader(tmp_path).end == history[-1][0]
    for start in [0, *rng.sample(range(60), 12)]:
        after = Lsn.parse(META.start_lsn) if start == 0 else Lsn(history[start - 1][0])
        expected = [m for _, messages in history[start:] for m in messages]
        assert read_all(tmp_path, after, rng.randrange(1, 1 << 14), rng.randrange(1, 1 << 12)) == expected
    print(f"compared {len(history)} transactions in {len(segments(tmp_path))} segments")


def test_a_range_knows_the_transaction_that_is_open_at_its_start(tmp_path: Path) -> None:
    """Ranges inside one large transaction, over several segments, carry its header and the count so far."""
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=3 << 20), Scanner(1 << 16)
    scanner.reset(writer.offset)
    feed(writer, scanner, transaction(200, [b"first"], (7,)))
    rows = [bytes([n % 256]) * 1000 for n in range(9000)]
    feed(writer, scanner, transaction(5000, rows, (7,)))
    writer.sync()
    piece = LogReader(tmp_path).next(Lsn(208), 1, 1 << 20)
    assert piece is not None
    assert piece.end == 5008
    assert piece.changes == 9000
    assert len({r.path for r in piece.ranges}) > 2
    counted = 0
    for number, range_ in enumerate(piece.ranges):
        if number:
            assert range_.opened is not None
            assert (range_.opened.commit_lsn, range_.opened.end_lsn, range_.opened.xid) == (5000, 5008, 0)
            assert range_.opened.seq == counted
        assert range_.tail_end_lsn == (0 if number == len(piece.ranges) - 1 else 5008)
        assert len(range_.relations) >= 1
        counted += sum(m[:1] == b"I" for m in frames(LogSlice(Lsn(0), Lsn(0), (range_,), 0, 0)))
    assert counted == 9000
    assert LogReader(tmp_path).next(Lsn(5008), 1) is None


@pytest.mark.parametrize("segment_bytes", [1 << 11, 1 << 26])
def test_an_unfinished_transaction_is_cut_and_never_seen(tmp_path: Path, segment_bytes: int) -> None:
    """A reconnect in the middle of a transaction leaves the log as if its beginning had never come."""
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=segment_bytes), Scanner(1 << 16)
    scanner.reset(writer.offset)
    reader = LogReader(tmp_path)
    whole = transaction(200, [b"a" * 900] * 5, (7,))
    half = transaction(400, [b"b" * 900] * 20, (8,))
    feed(writer, scanner, whole)
    feed(writer, scanner, half[:-1])
    writer.sync()
    assert reader.wait(0)
    assert reader.end == 208
    writer.cut(scanner)
    assert writer.end == 208
    feed(writer, scanner, half)
    writer.sync()
    wanted = [m for m in whole + half if m[:1] != b"R"]
    assert read_all(tmp_path, Lsn(100), 1 << 20, 1 << 10) == wanted
    second = reader.next(Lsn(208), 1 << 20)
    assert second is not None
    assert frames(second) == [m for m in half if m[:1] != b"R"]


def test_a_new_segment_does_not_vouch_for_what_is_not_synced(tmp_path: Path) -> None:
    """
    The end is that of the index, although the next segment is named after a later transaction.

    A sink that believed the name would take the stream for ended there, and go past the transaction.
    """
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=1 << 11), Scanner(1 << 16)
    scanner.reset(writer.offset)
    feed(writer, scanner, transaction(100, [b"row"]))
    writer.sync()
    reader = LogReader(tmp_path)
    feed(writer, scanner, transaction(200, [b"x" * 900] * 3))
    feed(writer, scanner, transaction(300, [b"row"])[:-1])
    assert any(segment.after == 208 for segment in segments(tmp_path)), "no segment begins after it"
    reader.wait(0)
    assert reader.end == 108
    assert reader.next(Lsn(108), 1 << 20) is None
    writer.sync()
    reader.wait(0)
    assert reader.end == 208
    piece = reader.next(Lsn(108), 1 << 20)
    assert piece is not None
    assert piece.end == 208


def test_a_reader_sees_that_a_transaction_is_arriving(tmp_path: Path) -> None:
    """From its first bytes to its end, also where it is the first of its segment."""
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=1 << 11), Scanner(1 << 16)
    scanner.reset(writer.offset)
    feed(writer, scanner, transaction(100, [b"row"]))
    writer.sync()
    reader = LogReader(tmp_path)
    assert not reader.is_arriving()
    rows = [b"x" * 900] * 5  # several segments
    feed(writer, scanner, transaction(200, rows)[:-1])
    writer.sync()
    reader.wait(0)
    assert reader.is_arriving()
    feed(writer, scanner, transaction(200, rows)[-1:])
    writer.sync()
    reader.wait(0)
    assert not reader.is_arriving()
    assert reader.end == 208


def test_what_was_not_synced_is_gone_after_a_failed_sync(tmp_path: Path) -> None:
    """After a failed sync nothing is believed but the last end, although the bytes can still be read."""
    writer, scanner = LogWriter(tmp_path, META), Scanner(1 << 16)
    scanner.reset(writer.offset)
    feed(writer, scanner, transaction(200, [b"a"], (7,)))
    writer.sync()
    feed(writer, scanner, transaction(300, [b"b"], (7,)))
    writer.sync()
    writer.end = Lsn(208)  # what a sync that raised half-way leaves behind
    writer.cut(scanner)
    assert writer.end == 208
    assert len(read_all(tmp_path, Lsn(100), 1 << 20, 1 << 20)) == 3


@pytest.mark.parametrize("torn", range(0, 140, 9))
def test_a_torn_index_ends_at_the_last_good_record(tmp_path: Path, torn: int) -> None:
    """Whatever part of the last index record is lost, the log ends with a whole transaction and goes on."""
    writer, scanner = LogWriter(tmp_path, META), Scanner(1 << 16)
    scanner.reset(writer.offset)
    for commit in (200, 300, 400):
        feed(writer, scanner, transaction(commit, [b"x" * commit], (7,)))
    writer.sync()
    writer.close()
    path = segments(tmp_path)[0].index
    raw = bytearray(path.read_bytes())
    path.write_bytes(raw[: len(raw) - torn] + b"\xff" * (torn % 2 * torn))
    again = LogWriter(tmp_path, META)
    assert again.end in (208, 308, 408)
    assert (again.end == 408) == (torn == 0)
    scanner.reset(again.offset)
    feed(again, scanner, transaction(500, [b"y"], (7,)))
    assert again.sync() == 508
    assert read_all(tmp_path, Lsn(100), 1, 1 << 20)[-2] == b"Iy"


def test_a_segment_shorter_than_its_index_is_an_error(tmp_path: Path) -> None:
    """Data that was lost from outside is found at the start, never skipped."""
    writer, scanner = LogWriter(tmp_path, META), Scanner(1 << 16)
    scanner.reset(writer.offset)
    feed(writer, scanner, transaction(200, [b"a" * 100], (7,)))
    writer.sync()
    writer.close()
    path = segments(tmp_path)[0].data
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LogFormatError, match="shorter"):
        LogWriter(tmp_path, META)


def test_watermarks_move_the_end_without_units(tmp_path: Path) -> None:
    """A keepalive's position is durable after a sync, survives a restart and gives no rows."""
    writer, scanner = LogWriter(tmp_path, META), Scanner(1 << 16)
    scanner.reset(writer.offset)
    scanned = scanner.scan(np.frombuffer(keepalive(900, reply=True), np.uint8), 23)
    assert (scanned.consumed, len(scanned.frames), scanner.wal_end) == (23, 0, 900)
    assert scanner.take_reply_request()
    assert not scanner.take_reply_request()
    writer.watermark(Lsn(900))
    assert writer.end == 100
    assert writer.sync() == 900
    writer.close()
    assert LogReader(tmp_path).end == 900
    assert LogReader(tmp_path).next(Lsn(100), 1) is None
    assert LogWriter(tmp_path, META).end == 900


def test_segments_go_only_when_all_have_passed_them(tmp_path: Path) -> None:
    """Purging up to a position leaves everything after it readable, also a transaction over segments."""
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=1 << 11), Scanner(1 << 16)
    scanner.reset(writer.offset)
    wanted = {}
    for number in range(30):
        commit = 200 + number * 100
        messages = transaction(commit, [b"z" * 700] * (1 + number % 7), (7,))
        feed(writer, scanner, messages)
        wanted[commit + 8] = messages
    writer.sync()
    for released in sorted(wanted):
        writer.purge(Lsn(released), keep_seconds=0)
        rest = [m for end, messages in wanted.items() if end > released for m in messages if m[:1] != b"R"]
        assert read_all(tmp_path, Lsn(released), 1 << 12, 1 << 10) == rest
    assert len(segments(tmp_path)) < 5
    with pytest.raises(SinkBehindLogError, match="no longer in the change log"):
        LogReader(tmp_path).next(Lsn(208), 1)


def test_a_log_that_begins_inside_a_transaction(tmp_path: Path) -> None:
    """Its beginning went with an earlier segment: who needs it is told, and never waits for it."""
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=1 << 11), Scanner(1 << 16)
    scanner.reset(writer.offset)
    feed(writer, scanner, transaction(200, [b"z" * 700] * 9, (7,)))  # over several segments
    last = transaction(300, [b"y"], (7,))
    feed(writer, scanner, last)
    writer.sync()
    assert writer.purge(Lsn(208), keep_seconds=0) > 0
    reader = LogReader(tmp_path)
    assert segments(tmp_path)[0].after == Lsn.parse(META.start_lsn)
    assert reader.first_lsn == 208
    with pytest.raises(SinkBehindLogError):
        reader.next(Lsn(100), 1 << 20)
    assert read_all(tmp_path, Lsn(208), 1 << 20, 1 << 10) == [m for m in last if m[:1] != b"R"]


def test_beginning_anew_never_hides_the_old_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that looks while the old segments are removed finds its place, or none of them."""
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=1 << 11), Scanner(1 << 16)
    scanner.reset(writer.offset)
    for commit in range(200, 2000, 100):
        feed(writer, scanner, transaction(commit, [b"z" * 900], (7,)))
    writer.sync()
    end = writer.end
    seen = []
    unlink = Path.unlink

    def look_and_unlink(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        seen.append(LogReader(tmp_path).first_lsn)

    monkeypatch.setattr(Path, "unlink", look_and_unlink)
    writer.begin_anew(scanner)
    monkeypatch.undo()
    assert len(seen) > 10
    assert max(seen) <= end


def test_retention_keeps_young_segments(tmp_path: Path) -> None:
    """A segment stays for its time although every consumer has passed it."""
    writer, scanner = LogWriter(tmp_path, META, segment_bytes=1 << 11), Scanner(1 << 16)
    scanner.reset(writer.offset)
    for commit in range(200, 2000, 100):
        feed(writer, scanner, transaction(commit, [b"z" * 900], (7,)))
    writer.sync()
    assert writer.purge(Lsn(5000), keep_seconds=3600) == 0
    assert writer.purge(Lsn(5000), keep_seconds=0) > 0


@pytest.mark.parametrize(
    "messages",
    [
        [b"C" + bytes(25)],
        [b"I" + bytes(9)],
        [b"B" + bytes(20), b"B" + bytes(20)],
        [b"B" + bytes(3)],
        [b"S" + bytes(9)],
        [b"M\x01" + bytes(20)],
        [b"R"],
        [b"B" + bytes(20), b"M\x00" + bytes(20)],
    ],
)
def test_what_is_not_protocol_1_is_refused(messages: list[bytes]) -> None:
    """A message out of place, too short or of another protocol stops the listener before it is logged."""
    data = b"".join(wire(m) for m in messages)
    with pytest.raises(DecodeError, match="unexpected message"):
        Scanner(1 << 12).scan(np.frombuffer(data, np.uint8), len(data))


def test_other_messages_stop_the_pass(tmp_path: Path) -> None:
    """A notice between two rows is left to the caller, with everything before it framed."""
    data = wire(transaction(200, [], ())[0]) + b"N" + struct.pack(">I", 6) + b"\0\0"
    scanned = Scanner(1 << 12).scan(np.frombuffer(data, np.uint8), len(data))
    assert scanned.reason == OTHER
    assert data[scanned.consumed : scanned.consumed + 1] == b"N"


def test_checksums_differ_for_any_changed_bit() -> None:
    """Every single flipped bit of a record is noticed."""
    records = np.zeros(1, index.RECORD)
    records["offset"], records["end_lsn"], records["kind"] = 12345, 999, index.END
    raw = bytearray(index.seal(records))
    for bit in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert len(index.valid_prefix(np.frombuffer(bytes(flipped), index.RECORD))) == 0


def test_a_reader_at_the_end_survives_a_log_that_begins_anew(tmp_path: Path) -> None:
    """Everything was passed and removed; what comes next is found in the new segment."""
    writer, scanner = LogWriter(tmp_path, META), Scanner(1 << 16)
    scanner.reset(writer.offset)
    feed(writer, scanner, transaction(200, [b"a"], (7,)))
    writer.sync()
    reader = LogReader(tmp_path)
    first = reader.next(Lsn(100), 1 << 20)
    assert first is not None
    writer.begin_anew(scanner)
    feed(writer, scanner, transaction(300, [b"b"], (7,)))
    writer.sync()
    second = reader.next(first.end, 1 << 20)
    assert second is not None
    assert frames(second)[1] == b"Ib"
    assert len(segments(tmp_path)) == 1
