"""Random valid streams, as hypothesis strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from pgsluice.source.pgoutput import messages as m
from pgsluice.testing.pgoutput import frame, relations_at

if TYPE_CHECKING:
    from pgsluice.source.pgoutput.decode import RelationAt

RELIDS = [1, 16384, 70000, 4294967295]
UNWANTED = 70000  # its rows are counted and left out

lsns = st.integers(0, 2**63 - 2)
times = st.integers(-(2**63), 2**63 - 1 - 946_684_800_000_000)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
texts = st.text(max_size=20) | st.binary(max_size=20)
prefixes = names | st.sampled_from(["pgsluice.heartbeat", "pgsluice.", "pgsluice", "pgsluicex"])
contents = st.binary(max_size=30) | st.text(max_size=30).map(str.encode) | st.just(b"\\x00")


@dataclass(frozen=True)
class Stream:
    """A log and what its index says of the relations."""

    log: bytes
    relations: list[RelationAt]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Whole transactions and messages between them, as a server could send them."""
    described: dict[int, int] = {}  # columns by relid
    parts: list[m.Message] = []
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.integers(0, 3)) == 0:
            parts.append(m.LogicalMessage(False, draw(lsns), draw(prefixes), draw(contents)))
        else:
            parts += _transaction(draw, described)
    log = b"".join(frame(part, draw(lsns)) for part in parts)
    return Stream(log, relations_at(log, {UNWANTED: -1}))


def _transaction(draw: st.DrawFn, described: dict[int, int]) -> list[m.Message]:
    commit_lsn, time = draw(lsns), draw(times)
    parts: list[m.Message] = [m.Begin(commit_lsn, time, draw(st.integers(0, 2**32 - 1)))]
    if draw(st.booleans()):
        parts.append(m.Origin(draw(lsns), draw(names)))
    for _ in range(draw(st.integers(0, 6))):
        parts += _change(draw, described)
    return [*parts, m.Commit(commit_lsn, draw(st.integers(1, 2**63 - 2)), time)]


def _change(draw: st.DrawFn, described: dict[int, int]) -> list[m.Message]:
    relid = draw(st.sampled_from(RELIDS))
    before: list[m.Message] = []
    if relid not in described or draw(st.integers(0, 5)) == 0:
        relation = _relation(draw, relid)
        described[relid] = len(relation.columns)
        before = [m.Type(draw(st.integers(0, 2**32 - 1)), draw(names), draw(names)), relation]
    return [*before, _row(draw, relid, described)]


def _relation(draw: st.DrawFn, relid: int) -> m.Relation:
    oids, typmods = st.integers(0, 2**32 - 1), st.integers(-1, 2**31 - 1)
    column = st.builds(m.RelationColumn, names, oids, typmods, st.booleans())
    columns = tuple(draw(st.lists(column, max_size=5)))
    return m.Relation(relid, draw(names) or "public", draw(names), draw(st.sampled_from("dnfi")), columns)


def _row(draw: st.DrawFn, relid: int, described: dict[int, int]) -> m.Message:
    columns = described[relid]
    olds = st.tuples(*[texts | st.none()] * columns)
    news = st.tuples(*[texts | st.none() | st.just(m.UNCHANGED)] * columns)
    kind = draw(st.sampled_from("IUUDTM"))
    if kind == "I":
        return m.Insert(relid, draw(news))
    if kind == "U":
        old_kind = draw(st.sampled_from(["K", "O", None]))
        return m.Update(relid, draw(news), draw(olds) if old_kind else None, old_kind)
    if kind == "D":
        return m.Delete(relid, draw(olds), draw(st.sampled_from("KO")))
    if kind == "T":
        relids = draw(st.lists(st.sampled_from(sorted(described)), max_size=3))
        return m.Truncate(tuple(relids), draw(st.booleans()), draw(st.booleans()))
    return m.LogicalMessage(True, draw(lsns), draw(prefixes), draw(contents))
