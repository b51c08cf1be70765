"""The changes that letters point at, read again from the log and through the same modifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.changelog.envelope import ENVELOPE
from pgsluice.changelog.position import Lsn
from pgsluice.changelog.reader import LogReader
from pgsluice.errors import LogError
from pgsluice.source.relations import Relations
from pgsluice.source.tasks import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pgsluice.modifiers.chain import Chain
    from pgsluice.schema.renames import Renames
    from pgsluice.schema.store import SchemaStore
    from pgsluice.schema.table import TableVersion
    from pgsluice.state.dead_letter import Letter

Tables = dict[int, "TableVersion"]


@dataclass(frozen=True, slots=True)
class HeldRows:
    """A part of a step whose rows are at hand."""

    table: pa.Table

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The entries."""
        yield from self.table.to_batches()


@dataclass(frozen=True, slots=True)
class LetterReader:
    """Reads what letters of one sink point at."""

    log: Path
    store: Callable[[], SchemaStore]
    chain: Chain
    spark: Callable[[], SparkSession]
    renames: Renames
    wanted: Callable[[TableVersion], bool] | None = None

    def read(self, letters: Sequence[Letter]) -> tuple[pa.Table, Tables]:
        """The rows in the order of the stream, and the versions that they name; modifiers may drop some."""
        reader = LogReader(self.log)
        relations = Relations(self.store(), wanted=self.wanted)
        found, tables = [ENVELOPE.empty_table()], dict[int, "TableVersion"]()
        for commit_lsn in sorted({letter.position.commit_lsn for letter in letters}):
            seqs = [each.position.seq for each in letters if each.position.commit_lsn == commit_lsn]
            # Everything that was committed before ends at this LSN at the latest.
            slice_ = reader.next(Lsn(commit_lsn), 1)
            if slice_ is None:
                raise LogError(f"the transaction at {commit_lsn} is not in the change log {self.log}")
            for range_ in slice_.ranges:
                (part,), versions = relations.resolve([range_])
                rows = pa.Table.from_batches([decode(part)])
                same = pc.and_(
                    pc.equal(rows["commit_lsn"], int(commit_lsn)),
                    pc.is_in(rows["seq"], pa.array(seqs, pa.int64())),
                )
                found.append(rows.filter(same))
                tables |= versions
        named = {
            number: self.renames.version(self.chain.narrowed(version)) for number, version in tables.items()
        }
        rows = pa.concat_tables(found)
        _require_all(rows, named, letters)
        rows = self.chain.of(tables).apply_local(rows, self.spark)
        return _meant(rows, named, letters), named


def _require_all(rows: pa.Table, tables: Tables, letters: Sequence[Letter]) -> None:
    """Raise when a letter's change is not there: its table is passed over, or has another name now."""
    there = set(_places(rows, tables))
    for letter in letters:
        if (*letter.position, letter.table) not in there:
            raise LogError(
                f"the change of letter {letter.id} is none of {letter.table} in this configuration",
                remedy="Replay with the schema_map, the tables and the filter that the run has",
            )


def _meant(rows: pa.Table, tables: Tables, letters: Sequence[Letter]) -> pa.Table:
    """Without the other tables of a TRUNCATE, and messages."""
    meant = {(*letter.position, letter.table) for letter in letters}
    return rows.filter(pa.array([place in meant for place in _places(rows, tables)], pa.bool_()))


def _places(rows: pa.Table, tables: Tables) -> Iterator[tuple[int, int, str | None]]:
    names = [None if number is None else tables[number].qualified for number in rows["relation"].to_pylist()]
    return zip(rows["commit_lsn"].to_pylist(), rows["seq"].to_pylist(), names, strict=True)
