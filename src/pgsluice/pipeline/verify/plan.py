"""What of each table is compared: by the rules that its rows go through, and by the target's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgsluice.modifiers.row_filter import RowFilter
from pgsluice.modifiers.transformer.apply_arrow import ArrowTransformer
from pgsluice.schema.catalog import completed, describe_types
from pgsluice.schema.type_names import display_name
from pgsluice.sinks.base import Comparable
from pgsluice.source.pgoutput.relation import table_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgsluice.modifiers.chain import Chain
    from pgsluice.postgres.session import Connection
    from pgsluice.schema.renames import Renames
    from pgsluice.schema.table import TableVersion
    from pgsluice.source.snapshot.tables import CopiedTable

_VERSION: Final = 1  # each table is read by itself


@dataclass(frozen=True, slots=True)
class Planned:
    """One table, and how it is compared."""

    table: CopiedTable
    version: TableVersion  # as the source calls it
    compared: Comparable
    counts_only: bool  # rows can't be told apart
    finds_by_key: bool  # whether the source has the key that the target has
    as_is: bool  # whether both servers have the same values, in the same types
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def version_of_table(conn: Connection, table: CopiedTable) -> TableVersion:
    """A table as its rows are read."""
    types = describe_types(conn, [column.type_oid for column in table.relation.columns])
    return completed(table_version(table.relation, _VERSION, types), conn)


def passes_over_operations(chain: Chain, version: TableVersion) -> bool:
    """Whether some operations on a table never reach the target, which then has other rows on purpose."""
    return any(each.passes_over_operations(version) for each in chain.of_kind(RowFilter))


def plan_table(
    table: CopiedTable,
    version: TableVersion,
    renames: Renames,
    chain: Chain,
    existing: Mapping[str, str],
    *,
    as_source: bool,
) -> Planned:
    """Decide; ``existing`` has the columns of the target's table with their types."""
    rules = _rules(chain, version)
    random = [place for place, is_random in rules.items() if is_random]
    missing = [column.name for column in version.columns if column.name not in existing]
    columns = tuple(
        place
        for place, column in enumerate(version.columns)
        if place not in random and column.name in existing
    )
    key = version.merge_key
    random_names = ", ".join(version.columns[place].name for place in random)
    counts_only = any(place in random for place in key) or any(
        version.columns[place].name in missing for place in key
    )
    same_types = all(
        existing[version.columns[place].name] == display_name(version.columns[place].type)
        for place in columns
    )
    return Planned(
        table,
        version,
        Comparable(renames.version(version), columns, () if counts_only else key),
        counts_only,
        bool(key) and not any(place in rules for place in key),
        as_source and same_types and not chain.of({_VERSION: version}),
        tuple([f"the target lacks the columns {', '.join(missing)}" for _ in missing[:1]]),
        tuple(
            [
                f"only counted: rules give its key random values ({random_names})"
                if counts_only
                else f"not compared: rules give random values to {random_names}"
                for _ in random[:1]
            ]
        ),
    )


def _rules(chain: Chain, version: TableVersion) -> dict[int, bool]:
    """The columns that have rules, and whether these go by chance."""
    return {
        place: not transformer.reach.is_deterministic(version, place, rule)
        for transformer in chain.of_kind(ArrowTransformer)
        for place, rule in transformer.reach.of_columns(version).items()
    }
