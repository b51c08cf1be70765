"""
The envelope's rows in plain Python: what ``decode.py`` must give, row by row.

Takes messages from ``plain.py`` and keeps the two things that a row depends on: the open transaction
and which Relation holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput.plain import error_at, frames, text_or_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgsluice.changelog.plan import OpenTransaction
    from pgsluice.source.pgoutput.decode import RelationAt
    from pgsluice.source.pgoutput.plain import Frame

Row: TypeAlias = dict[str, Any]
"""A row of the envelope; ``commit_ts`` in microseconds since 1970, text that is not UTF-8 as bytes."""

_UNIX_EPOCH: Final = 946_684_800_000_000
_OWN_PREFIX: Final = b"pgsluice."
_ROW_CHANGES: Final = (m.Insert, m.Update, m.Delete)


def rows(
    data: bytes,
    start: int,
    end: int,
    *,
    opened: OpenTransaction | None,
    tail_end_lsn: int,
    relations: Sequence[RelationAt],
    base: int = 0,
) -> list[Row]:
    """The rows that ``decode_range`` gives for the same arguments."""
    reader = _Reader(list(relations), start, end)
    if opened is not None:
        reader.begin(m.Begin(opened.commit_lsn, opened.commit_ts, opened.xid), opened.seq)
    for frame in frames(data[start - base : end - base], start):
        reader.take(frame)
    reader.finish(end, tail_end_lsn)
    return reader.rows


@dataclass(slots=True)
class _Reader:
    """The state between two frames."""

    relations: list[RelationAt]
    start: int
    end: int
    rows: list[Row] = field(default_factory=list)
    transaction: m.Begin | None = None
    seq: int = 0
    first_row: int = 0  # of the open transaction
    in_force: dict[int, RelationAt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.in_force = {known.relid: known for known in self.relations if known.offset < self.start}
        self.relations = [known for known in self.relations if self.start <= known.offset < self.end]

    def begin(self, begin: m.Begin, seq: int = 0) -> None:
        self.transaction, self.seq, self.first_row = begin, seq, len(self.rows)

    def finish(self, at: int, end_lsn: int) -> None:
        """The range is over."""
        if self.relations:
            raise error_at("no Relation where the index has one", 0, self.relations[0].offset)
        if (self.transaction is None) != (end_lsn == 0):
            raise error_at("the index has another open transaction", 0, at)
        self.end_transaction(end_lsn)

    def end_transaction(self, end_lsn: int) -> None:
        for row in self.rows[self.first_row :]:
            row["end_lsn"] = end_lsn
        self.transaction, self.first_row = None, len(self.rows)

    def take(self, frame: Frame) -> None:
        """Add the rows of one message."""
        message = frame.message
        if isinstance(message, m.Begin):
            if self.transaction is not None:
                raise self.wrong("Begin inside another transaction", frame)
            self.begin(message)
        elif isinstance(message, m.Commit):
            if self.transaction is None or self.transaction.commit_lsn != message.commit_lsn:
                raise self.wrong("Commit outside its transaction", frame)
            self.end_transaction(message.end_lsn)
        elif isinstance(message, m.Relation):
            self.relation(message, frame)
        elif isinstance(message, m.LogicalMessage):
            self.logical(message, frame)
        elif isinstance(message, (*_ROW_CHANGES, m.Truncate)):
            if self.transaction is None:
                raise self.wrong("change outside a transaction", frame)
            self.seq += 1
            if isinstance(message, m.Truncate):
                self.truncate(message, frame)
            else:
                self.change(message, frame)

    def relation(self, message: m.Relation, frame: Frame) -> None:
        known = self.relations.pop(0) if self.relations else None
        found = (frame.offset, message.relid, len(message.columns))
        if known is None or found != (known.offset, known.relid, known.columns):
            raise self.wrong("a Relation that is not as the index has it", frame)
        self.in_force[message.relid] = known

    def change(self, message: m.Insert | m.Update | m.Delete, frame: Frame) -> None:
        known = self.known(message.relid, frame)
        new = None if isinstance(message, m.Delete) else message.new
        old = None if isinstance(message, m.Insert) else message.old
        for values in (old, new):
            if values is not None and len(values) != known.columns:
                raise self.wrong("another number of columns than the relation has", frame)
        unchanged = [i for i, value in enumerate(new or ()) if value is m.UNCHANGED]
        self.add(
            known,
            op=type(message).__name__[0],
            values=None if new is None else [None if value is m.UNCHANGED else value for value in new],
            old=None if old is None else list(old),
            unchanged=unchanged or None,
        )

    def truncate(self, message: m.Truncate, frame: Frame) -> None:
        options = ("cascade", message.cascade), ("restart_identity", message.restart_identity)
        content = ",".join(name for name, is_set in options if is_set)
        for known in [self.known(relid, frame) for relid in message.relids]:
            self.add(known, op="T", content=content)

    def logical(self, message: m.LogicalMessage, frame: Frame) -> None:
        if message.transactional != (self.transaction is not None):
            raise self.wrong("message outside its transaction", frame)
        self.seq = self.seq + 1 if message.transactional else 0
        prefix = message.prefix.encode() if isinstance(message.prefix, str) else message.prefix
        if not prefix.startswith(_OWN_PREFIX):
            self.add(None, op="M", prefix=message.prefix, content=_content_text(message.content))
            if not message.transactional:
                self.rows[-1].update(commit_lsn=message.lsn, end_lsn=message.lsn + 1)
                self.first_row = len(self.rows)

    def known(self, relid: int, frame: Frame) -> RelationAt:
        if relid not in self.in_force:
            raise self.wrong("a relation that was not described before", frame)
        return self.in_force[relid]

    def add(self, known: RelationAt | None, op: str, **more: Any) -> None:
        if known is not None and known.version < 0:
            return
        begin = self.transaction
        self.rows.append(
            {
                "commit_lsn": begin and begin.commit_lsn,
                "seq": self.seq,
                "end_lsn": None,
                "xid": begin and begin.xid,
                "commit_ts": begin and begin.commit_ts + _UNIX_EPOCH,
                "op": op,
                "relation": known and known.version,
                "schema": known and known.schema,
                "table": known and known.table,
                **dict.fromkeys(("values", "old", "unchanged", "prefix", "content")),
                **more,
            }
        )

    def wrong(self, what: str, frame: Frame) -> Exception:
        return error_at(what, frame.lsn, frame.offset)


def _content_text(content: bytes) -> str:
    text = text_or_bytes(content)
    return f"\\x{content.hex()}" if isinstance(text, bytes) or text.startswith("\\x") else text
