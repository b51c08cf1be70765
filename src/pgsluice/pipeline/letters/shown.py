"""A letter's row as people see it: after the modifiers, by name of the column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgsluice.pipeline.letters.reading import LetterReader
    from pgsluice.schema.table import TableVersion
    from pgsluice.state.dead_letter import Letter


def shown_row(reader: LetterReader, letter: Letter) -> dict[str, dict[str, str | None]]:
    """The new values and, where the stream has them, the old ones; empty when a modifier drops the row."""
    rows, tables = reader.read([letter])
    shown: dict[str, dict[str, str | None]] = {}
    for row in rows.to_pylist():
        version = tables[row["relation"]]
        for part in ("values", "old"):
            if row[part] is not None:
                shown[part] = _named(row, part, version)
    return shown


def _named(row: dict[str, Any], part: str, version: TableVersion) -> dict[str, str | None]:
    unsent = set(row["unchanged"] or ()) if part == "values" else set()
    names = [column.name for column in version.columns]
    return {name: row[part][index] for index, name in enumerate(names) if index not in unsent}
