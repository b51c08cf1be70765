"""
Between a sink's loop and its sink: rows that the target refuses are put aside, and the batch goes on without.

Before a batch is applied, its letters are in ``state.db`` and the log is held for them; then the sink's
progress passes them. A crash in between leaves letters that are not passed yet: they are forgotten at the
next start, and found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from pgsluice.errors import (
    ChangeRefusedError,
    ConfigError,
    LogUnwritableError,
    TargetError,
    TooManyLettersError,
)
from pgsluice.observability.failpoints import failpoint
from pgsluice.pipeline.letters.sorting import TableRows, by_table
from pgsluice.sinks.base import TriesRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pgsluice.changelog.consumers import Consumers
    from pgsluice.changelog.position import Lsn, Progress
    from pgsluice.pipeline.batch import LogBatch, LogStep
    from pgsluice.pipeline.config.targets import OnError
    from pgsluice.sinks.base import Sink
    from pgsluice.state.dead_letter import Letter, LetterBook, Refused

    Placed = Callable[[ChangeRefusedError], Refused]

logger = structlog.get_logger(__name__)

MAX_OPEN: Final = 1000
"""Open letters of a sink. A target that refuses more lacks a table or a right: no row-by-row matter."""

_SUFFIX: Final = "-letters"


def letters_name(sink: str) -> str:
    """The name under which the log is held for the letters of a sink."""
    return f"{sink}{_SUFFIX}"


def is_letters_name(name: str) -> bool:
    """Whether the log is held for letters under that name."""
    return name.endswith(_SUFFIX)


class Desk:
    """The dead letters of one sink, beside its loop."""

    def __init__(
        self, name: str, sink: Sink, book: LetterBook, consumers: Consumers, *, on_error: OnError
    ) -> None:
        self.name = name
        self.sink = sink
        self.book = book
        self._consumers = consumers
        self._on_error = on_error
        self._open: list[Letter] = []  # all of them are before the sink's position, but while it applies
        self._noted = False  # whether something is noted about a batch that is not applied yet
        self._trying: tuple[str, dict[str, TableRows]] | None = None  # by the end of a batch
        self._aside: dict[str, list[Refused]] = {}  # changes of the schema, by the end of their batch
        self._held: Lsn | None = None

    def settle(self, progress: Progress | None) -> None:
        """Bring the letters in step with what the target holds, at the start."""
        if progress is not None:
            self.book.settle(self.name, progress)
        self.look()
        if progress is None and self._open:
            raise ConfigError(
                f"target {self.name!r} has nothing of this pipeline, but {len(self._open)} open dead letters:"
                " it is another database, or it was emptied",
                remedy="Correct its address; or, if it was emptied and gets everything anew: pgsluice dlq "
                "discard --all",
            )

    def look(self) -> None:
        """Read the letters again."""
        self._open = self.book.letters(self.name)
        self._hold(self._open)

    @property
    def puts_aside(self) -> bool:
        """Whether rows that the target refuses become letters."""
        return self._on_error == "dead_letter"

    @property
    def is_empty(self) -> bool:
        """Whether no letter is open, so that no row has to wait behind one."""
        return not self._open

    def asked(self) -> list[Letter]:
        """The letters that people want to be replayed now."""
        if self.book.changed():
            self.look()
        return [letter for letter in self._open if letter.asked]

    def overtake(self, tables: Iterable[str]) -> None:
        """Close the letters of tables that are copied anew: the copy has what they lack."""
        names = set(tables)
        if any(letter.table in names for letter in self._open):
            self.book.overtake(self.name, names)
            self.look()

    def apply(self, batch: LogBatch, since: Lsn, end: Lsn) -> None:
        """
        Apply a batch, without the rows that can't be.

        Args:
            since: the position of the sink before the batch; ``end`` is that after it.
        """
        (step,) = batch.steps
        sorted_ = self._sorted_before(batch) or self._waiting(step)
        self._require_few(sorted_, "they wait behind letters of the same rows")
        while True:
            step.left_out = frozenset(place for rows in sorted_.values() for place in rows.left_out)
            self._note(sorted_.values(), since, end)
            self._trying = batch.end, sorted_
            try:
                self.sink.apply(batch)
            except TargetError as error:
                if not error.caused_by_row or not isinstance(self.sink, TriesRows):
                    raise
                self._sort_out(error, self.sink, step, sorted_)
            else:
                break
        self._passed(end)
        self._trying = None

    def apply_with_schema(
        self, made: Callable[[Collection[Refused]], LogBatch], span: tuple[Lsn, Lsn], placed: Placed
    ) -> None:
        """
        Apply a batch with changes of the schema, without those that can't be made.

        Args:
            made: the batch without some of the changes.
            span: the position of the sink before the batch, and after it.
            placed: where a change stands that the target refused.
        """
        aside = self._aside.setdefault(str(span[1]), [])  # a reply may be lost: the same is left out again
        while True:
            batch = made(aside)
            waiting = [rows for step in batch.steps if step.entry is None for rows in self._held_back(step)]
            self._note(waiting, *span, aside)
            try:
                self.sink.apply(batch)
                break
            except ChangeRefusedError as error:
                refused = placed(error)
                if not self.puts_aside:
                    raise located(error, refused) from error
                aside.append(refused)
        self._aside.clear()
        self._passed(span[1])

    def _held_back(self, step: LogStep) -> list[TableRows]:
        """What of a step waits behind letters; it is left out."""
        found = list(self._waiting(step).values())
        step.left_out = frozenset(place for rows in found for place in rows.left_out)
        return found

    def _passed(self, end: Lsn) -> None:
        if self._noted:
            self.book.passed(self.name, end)
            self._noted = False
            self.look()

    def _sorted_before(self, batch: LogBatch) -> dict[str, TableRows] | None:
        """
        What was put aside when the same batch was tried before.

        It may have been applied, and only the reply was lost: then it was applied without these rows.
        """
        return self._trying[1] if self._trying is not None and self._trying[0] == batch.end else None

    def _waiting(self, step: LogStep) -> dict[str, TableRows]:
        """The rows of tables that have letters already."""
        step.left_out = frozenset()
        letters: dict[str, list[Letter]] = {}
        for letter in self._open:
            letters.setdefault(letter.table, []).append(letter)
        if not any(version.qualified in letters for version in step.tables.values()):
            return {}
        found = by_table(step.chunks(), step.tables, letters.__contains__)
        return {name: TableRows(name, rows, step.tables, letters[name]) for name, rows in found.items()}

    def _sort_out(
        self, error: TargetError, sink: TriesRows, step: LogStep, sorted_: dict[str, TableRows]
    ) -> None:
        """Find what the target refuses in the table that the error names, or in all."""
        step.left_out = frozenset()
        named = {version.qualified for version in step.tables.values()} & {error.fields.get("table")}
        fresh = by_table(
            step.chunks(), step.tables, lambda name: name not in sorted_ and name in (named or {name})
        )
        for name, rows in fresh.items():
            sorted_[name] = TableRows(name, rows, step.tables)
        before = _count(sorted_)
        with sink.trial() as trial:
            for name in named or sorted_:
                sorted_[name].find_refused(trial, lambda refused: self._check(refused, error, sorted_))
        if _count(sorted_) == before:
            raise error  # the target refuses no row for itself
        self._require_few(sorted_, error.message)

    def _check(self, refused: Refused, error: TargetError, sorted_: Mapping[str, TableRows]) -> None:
        """What becomes of a row that is refused: the policy."""
        if self._on_error == "stop":
            raise located(error, refused)
        self._require_few(sorted_, error.message)

    def _require_few(self, sorted_: Mapping[str, TableRows], reason: str) -> None:
        count = len(self._open) + _count(sorted_)
        if count > MAX_OPEN:
            raise TooManyLettersError(
                f"target {self.name!r} would have {count} dead letters, and {MAX_OPEN} is the most; "
                f"the last reason was: {reason}",
                remedy="Mend the target, or leave the table out; nothing of this batch was applied. Then "
                "`pgsluice dlq list`",
            )

    def _note(
        self, sorted_: Collection[TableRows], since: Lsn, end: Lsn, changes: Sequence[Refused] = ()
    ) -> None:
        """Make durable what will be left out, and hold the log for it."""
        refused = [*changes, *(each for rows in sorted_ for each in rows.refused)]
        emptied = [rows.emptied for rows in sorted_ if rows.emptied is not None]
        if not (refused or emptied or self._noted):
            return
        self._hold([*self._open, *refused])
        failpoint("letters.before_note")
        self.book.record(self.name, since, sorted(refused, key=lambda each: each.position), emptied, end)
        self._noted = True
        failpoint("letters.after_note")
        if refused:
            logger.warning(
                "rows put aside as dead letters",
                sink=self.name,
                rows=len(refused),
                tables=sorted({each.table for each in refused}),
                remedy="pgsluice dlq list",
            )

    def _hold(self, letters: Iterable[Refused]) -> None:
        """Keep what letters point at in the log."""
        oldest = min((each.position.commit_lsn for each in letters), default=None)
        if oldest == self._held:
            return
        try:
            if oldest is None:
                self._consumers.drop(letters_name(self.name))
            else:
                # The slot need not wait: a log that is lost takes the letters with it.
                self._consumers.release(letters_name(self.name), oldest, durable=False, synced=True)
        except OSError as exc:
            raise LogUnwritableError(f"the log can't be held for dead letters: {exc.strerror}") from exc
        self._held = oldest


def located(error: TargetError, refused: Refused) -> TargetError:
    """The error that one row caused, with the place of that row."""
    at = f"change {refused.position.seq} of the transaction at {refused.position.commit_lsn}"
    return type(error)(
        f"{error.message} ({at})",
        remedy=error.remedy,
        **{**error.fields, "position": [str(refused.position.commit_lsn), refused.position.seq]},
    )


def _count(sorted_: Mapping[str, TableRows]) -> int:
    return sum(len(rows.refused) for rows in sorted_.values())
