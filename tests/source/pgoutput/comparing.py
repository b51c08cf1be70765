"""The compiled decoder and the plain one, made comparable, and the cuts at which a log can be split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.changelog.plan import OpenTransaction
from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput import plain_rows
from pgsluice.source.pgoutput.decode import RelationAt, decode_range
from pgsluice.source.pgoutput.plain import frames

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPARABLE = pa.schema(
    [
        field.with_type(
            pa.int64()
            if field.name == "commit_ts"
            else pa.binary()
            if field.type == pa.string()
            else pa.list_(pa.field("element", pa.binary()))
            if field.name in ("values", "old")
            else field.type
        )
        for field in ENVELOPE
    ]
)


@dataclass(frozen=True)
class Cut:
    """A place between two frames, with what an index would say about it."""

    offset: int
    opened: OpenTransaction | None

    @property
    def end_lsn(self) -> int:
        """The end of the transaction that is open here."""
        return self.opened.end_lsn if self.opened else 0


def cuts(log: bytes) -> list[Cut]:
    """Every place where a log can be split, its ends included."""
    found, opened = [Cut(0, None)], None
    messages = [each.message for each in frames(log)]
    offsets = [*[each.offset for each in frames(log)][1:], len(log)]
    for i, (message, offset) in enumerate(zip(messages, offsets, strict=False)):
        if isinstance(message, m.Begin):
            end = next(later.end_lsn for later in messages[i:] if isinstance(later, m.Commit))
            opened = OpenTransaction(message.commit_lsn, message.commit_ts, message.xid, end, 0)
        elif isinstance(message, m.Commit):
            opened = None
        elif opened and isinstance(message, (m.Insert, m.Update, m.Delete, m.Truncate, m.LogicalMessage)):
            opened = replace(opened, seq=opened.seq + 1)
        found.append(Cut(offset, opened))
    return found


def fast(
    log: bytes | np.ndarray,
    relations: Sequence[RelationAt],
    start: Cut | None = None,
    end: Cut | None = None,
    base: int = 0,
) -> list[dict[str, Any]]:
    """The rows of the compiled decoder, with text as bytes."""
    data = np.frombuffer(log, np.uint8) if isinstance(log, bytes) else log
    start, end = start or Cut(0, None), end or Cut(base + len(data), None)
    batch = decode_range(
        data,
        start.offset,
        end.offset,
        opened=start.opened,
        tail_end_lsn=end.end_lsn,
        relations=relations,
        base=base,
    )
    return comparable(batch)


def comparable(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The batch as plain rows, after a look at its insides."""
    assert batch.schema == ENVELOPE
    for name in ("values", "old"):  # what was counted is what was written, to the byte
        items = batch.column(name).values
        text = items.buffers()[2].size if items.buffers()[2] else 0
        assert text == sum(len(item) for item in items.cast(pa.binary()).to_pylist() if item)
    batch = batch.cast(_COMPARABLE)
    batch.validate(full=True)
    return batch.to_pylist()


def slow(
    log: bytes,
    relations: Sequence[RelationAt],
    start: Cut | None = None,
    end: Cut | None = None,
) -> list[dict[str, Any]]:
    """The rows of the plain decoder, with text as bytes."""
    start, end = start or Cut(0, None), end or Cut(len(log), None)
    rows = plain_rows.rows(
        log,
        start.offset,
        end.offset,
        opened=start.opened,
        tail_end_lsn=end.end_lsn,
        relations=relations,
    )
    return [{name: _as_bytes(value) for name, value in row.items()} for row in rows]


def _as_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return [_as_bytes(item) for item in value] if isinstance(value, list) else value
