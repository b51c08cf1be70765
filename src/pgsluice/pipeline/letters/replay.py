"""
Replaying letters: their changes are applied in their order, with those that wait behind them.

The sink's position stays where it is; its token gets the number of the replay, in one stroke with the rows.
So a reply that was lost, or a crash before the letters are closed, is recognised: no letter is applied twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from pgsluice.errors import GapError, LogError, SluiceError, TargetError
from pgsluice.modifiers.chain import Modification
from pgsluice.observability.failpoints import failpoint
from pgsluice.pipeline.batch import LogBatch, LogStep
from pgsluice.pipeline.letters.reading import HeldRows
from pgsluice.pipeline.letters.sorting import Blocked, TableRows, by_table
from pgsluice.sinks.base import TriesRows
from pgsluice.state.dead_letter import DDL, Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import pyarrow as pa

    from pgsluice.changelog.position import Position, Progress
    from pgsluice.pipeline.letters.desk import Desk
    from pgsluice.pipeline.letters.reading import LetterReader, Tables
    from pgsluice.state.dead_letter import Letter

logger = structlog.get_logger(__name__)


def with_those_behind(letters: Sequence[Letter], ids: Collection[int]) -> list[Letter]:
    """The letters of these numbers, and all that share a row with them: they go together, in order."""
    chosen = {letter.id for letter in letters if letter.id in ids}
    grown = True
    while grown:
        blocked: dict[str, Blocked] = {}
        for letter in letters:
            if letter.id in chosen:
                blocked.setdefault(letter.table, Blocked()).add(letter)
        more = {
            letter.id
            for letter in letters
            if letter.id not in chosen
            and letter.table in blocked
            and (not letter.keys or blocked[letter.table].behind(letter.keys, letter.key_columns))
        }
        grown = bool(more)
        chosen |= more
    return [letter for letter in letters if letter.id in chosen]


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of letters that are replayed."""

    letters: list[Letter]
    taken: list[Letter]  # those that can be closed
    rows: list[TableRows]
    tables: Tables
    error: SluiceError | None = None  # why none of them can


@dataclass(frozen=True, slots=True)
class Replay:
    """Replays letters of one sink."""

    desk: Desk
    reader: LetterReader
    scratch: Path

    def judge(self, ids: Collection[int]) -> Judged:
        """Find out which letters the target takes now, with those behind them; changes nothing."""
        letters = with_those_behind(self.desk.book.letters(self.desk.name), ids)
        changes = [letter.id for letter in letters if letter.op == DDL]
        if changes:
            why = TargetError(
                f"letter {changes[0]} is a change of the schema, which is not made by a replay",
                remedy="Make it in the target by hand, and discard the letter (pgsluice dlq discard "
                f"{changes[0]}); then replay what waits behind it",
            )
            return Judged(letters, [], [], {}, why)
        try:
            rows, tables = self.reader.read(letters)
        except (GapError, LogError) as error:
            return Judged(letters, [], [], {}, error)
        judged = self._judge(rows, tables)
        return Judged(letters, _taken(letters, judged), judged, tables)

    def finish(self, judged: Judged, token: str, progress: Progress) -> Progress:
        """
        Apply what is taken and close it; gives the progress that the sink holds then.

        May be called again with the same when a reply was lost. What is refused again stays open.
        """
        book, error = self.desk.book, judged.error
        try:
            if judged.taken:
                progress = self._apply(judged, token, progress)
        except TargetError as exc:
            if not exc.caused_by_row:
                raise
            error = exc
        if error is not None:
            _refuse_all(self.desk, judged.letters, error)
        else:
            again = {(each.table, each.position): each for rows in judged.rows for each in rows.refused}
            for letter in judged.letters:
                if letter not in judged.taken:
                    book.refuse(letter, again[letter.table, letter.position])
            logger.info(
                "dead letters replayed",
                sink=self.desk.name,
                applied=len(judged.taken),
                refused_again=len(judged.letters) - len(judged.taken),
            )
        book.not_asked(judged.letters)
        self.desk.look()
        return progress

    def _judge(self, rows: pa.Table, tables: Tables) -> list[TableRows]:
        """Find what the target refuses again."""
        sink = self.desk.sink
        if not isinstance(sink, TriesRows):
            raise TargetError(f"target {self.desk.name!r} takes no single rows")
        judged = [
            TableRows(name, found, tables)
            for name, found in by_table([rows], tables, lambda _name: True).items()
        ]
        with sink.trial() as trial:
            for each in judged:
                each.find_refused(trial, lambda _refused: None)
        return judged

    def _apply(self, judged: Judged, token: str, progress: Progress) -> Progress:
        moved = replace(progress, replays=progress.replays + 1)
        self.desk.book.begin_replay(judged.taken, moved.replays)
        parts = [HeldRows(rows.taken) for rows in judged.rows]
        step = LogStep(parts, judged.tables, Modification(), self.reader.spark, self.scratch, small=True)
        failpoint("letters.before_replay")
        held = progress.copies.tables if progress.copies is not None else ()
        self.desk.sink.apply(LogBatch(token, moved.encode(), (step,), held=held))
        failpoint("letters.after_replay")
        self.desk.book.settle(self.desk.name, moved)
        return moved


def _taken(letters: Sequence[Letter], judged: Sequence[TableRows]) -> list[Letter]:
    """The letters that can be closed: applied, dropped by a modifier, or before a TRUNCATE that is."""
    refused: dict[tuple[str, Position], Position | None] = {
        (each.table, each.position): rows.emptied.position if rows.emptied else None
        for rows in judged
        for each in rows.refused
    }

    def is_taken(letter: Letter) -> bool:
        place = letter.table, letter.position
        emptied = refused.get(place)
        return place not in refused or (emptied is not None and letter.position < emptied)

    return [letter for letter in letters if is_taken(letter)]


def _refuse_all(desk: Desk, letters: Sequence[Letter], error: SluiceError) -> None:
    for letter in letters:
        if letter.op == DDL:
            continue  # its own words have the statement
        again = Refused(
            letter.table, letter.position, letter.op, letter.version, letter.key_columns, letter.keys,
            error.code, str(error), error.fields.get("column"),
        )  # fmt: skip
        desk.book.refuse(letter, again)
