"""Changes of the schema on their way through the modifiers: what these learn from them, and what goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgsluice.modifiers.columns.apply import ColumnFilter
from pgsluice.modifiers.row_filter import RowFilter
from pgsluice.modifiers.transformer.apply import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgsluice.modifiers.chain import Chain
    from pgsluice.schema.entry import Definition, SchemaEntry


@dataclass(frozen=True, slots=True)
class ModifiedEntry:
    """A change of the schema after the modifiers."""

    entry: SchemaEntry
    anew: frozenset[int] = frozenset()  # tables whose rows have to be copied for it, through the modifiers


def modified_entry(entry: SchemaEntry, chain: Chain, carries: Callable[[Definition], bool]) -> ModifiedEntry:
    """
    What goes on of a change; raises before anything does that must not.

    ``carries`` says of a table whether rows come of it.
    """
    anew = set[int]()
    for rows in chain.of_kind(RowFilter):
        rows.lineage.learn_entry(entry)
    for transformer in chain.of_kind(Transformer):
        anew |= transformer.learn_entry(entry)
        for change in entry.changes:
            of = change.after
            if of is not None and of["kind"] == "table" and "partitioned_by" not in of and carries(of):
                transformer.require_rules(change.oid, of)
        entry = transformer.entry_without(entry)
    for columns in chain.of_kind(ColumnFilter):
        entry = columns.entry_without(entry)
    return ModifiedEntry(entry, frozenset(anew))


def hides_words(chain: Chain) -> bool:
    """Whether the text of a command may have what must not leave: names, defaults, rows beside it."""
    return bool(chain.of_kind(ColumnFilter)) or any(
        transformer.changes_values for transformer in chain.of_kind(Transformer)
    )
