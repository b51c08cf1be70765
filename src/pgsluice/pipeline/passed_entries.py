"""
Changes of the schema for a target that is given them as rows: as far as their objects go on.

What one command changed is told object by object, so it is split by object. The text of the command is not:
it may have the names, defaults and comments of what stays behind, and then nobody is given it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgsluice.changelog.envelope import SPARK_ENVELOPE, in_envelope
from pgsluice.schema.match import OWN_SCHEMA, TablePattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pgsluice.pipeline.copy import CopySource
    from pgsluice.schema.entry import ObjectChange, SchemaEntry
    from pgsluice.schema.table import TableVersion


@dataclass(frozen=True, slots=True)
class PassedEntries:
    """The modifier of rows that are changes of the schema, by the numbers of their entries."""

    changes: Mapping[str, str]  # what is left of each, as JSON
    gone: tuple[str, ...]  # of which nothing is left
    untold: tuple[str, ...]  # whose text stays behind

    def __bool__(self) -> bool:
        return bool(self.changes or self.gone or self.untold)

    def touches(self, version: TableVersion) -> bool:
        """Whether rows are changes of the schema."""
        return version.schema == OWN_SCHEMA

    def __call__(self, frame: DataFrame, tables: Mapping[int, TableVersion]) -> DataFrame:
        """The frame with what is left of them."""
        places = self._places(tables)

        def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            for batch in batches:
                yield from self._changed(pa.Table.from_batches([in_envelope(batch)]), places).to_batches()

        return frame.mapInArrow(change, SPARK_ENVELOPE)

    def change_arrow(self, rows: pa.Table, tables: Mapping[int, TableVersion]) -> pa.Table:
        """The same for rows on the driver."""
        return self._changed(rows, self._places(tables))

    def _places(self, tables: Mapping[int, TableVersion]) -> dict[int, dict[str, int]]:
        """Where the columns of such rows are, by number of the version."""
        return {
            number: {column.name: place for place, column in enumerate(version.columns)}
            for number, version in tables.items()
            if self.touches(version)
        }

    def _changed(self, rows: pa.Table, places: Mapping[int, Mapping[str, int]]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        parts, done = [], 0
        is_one = pc.is_in(rows["relation"], pa.array(places, pa.int32()))
        for at in pc.indices_nonzero(is_one).to_pylist():  # few among many
            parts += [rows.slice(done, at - done), self._left(rows.slice(at, 1), places)]
            done = at + 1
        return pa.concat_tables([*parts, rows.slice(done)])

    def _left(self, row: pa.Table, places: Mapping[int, Mapping[str, int]]) -> pa.Table:
        import pyarrow as pa

        place, values = places[row["relation"][0].as_py()], row["values"][0].as_py()
        number = values[place["id"]]
        if number in self.gone:
            return row.slice(1)
        values[place["changes"]] = self.changes.get(number, values[place["changes"]])
        if number in self.untold:
            values[place["statement"]] = None
        field = row.schema.field("values")
        return row.set_column(row.schema.get_field_index("values"), field, pa.array([values], field.type))


def passed_entries(
    entries: Sequence[SchemaEntry],
    source: CopySource | None,
    narrow: Callable[[SchemaEntry], SchemaEntry],
    *,
    hides: bool,
) -> PassedEntries:
    """
    What is left of some entries.

    ``narrow`` gives what modifiers leave of one; ``hides`` says whether they keep all texts of commands back.
    """
    changes, gone, untold = {}, [], set[str]()
    for entry in entries:
        left = entry if source is None else _of_tables(entry, source)
        left = narrow(left)
        if left.changes == entry.changes:
            continue
        untold.add(entry.statement)
        if left.changes:
            changes[str(entry.id)] = left.as_row()["changes"] or ""
        else:
            gone.append(str(entry.id))
    hidden = (entry for entry in entries if hides or entry.statement in untold)
    return PassedEntries(changes, tuple(gone), tuple(str(entry.id) for entry in hidden))


def _of_tables(entry: SchemaEntry, source: CopySource) -> SchemaEntry:
    """Without tables that don't go on, and what belongs to them."""

    def goes_on(change: ObjectChange) -> bool:
        described = [each for each in (change.before, change.after) if each]
        if change.definition.get("kind") == "table":
            return any(map(source.takes, described))
        tables = [each["table"] for each in described if "table" in each]
        tables += [each["owned_by"].rpartition(".")[0] for each in described if "owned_by" in each]
        named = map(TablePattern.parse, tables)
        return all(source.wanted(each.schema or "", each.table or "") for each in named)

    return replace(entry, changes=tuple(filter(goes_on, entry.changes)))
