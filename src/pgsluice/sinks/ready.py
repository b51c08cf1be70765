"""Which tables of a target are ready for which version of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pgsluice.errors import TargetSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgsluice.schema.table import TableVersion

Table = TypeVar("Table")


def table_gone(version: TableVersion) -> TargetSchemaError:
    """The error for a table that the target had, and has no longer."""
    return TargetSchemaError(
        f"the target's table {version.qualified} is gone, and with it the rows that were copied",
        remedy=f"Copy it anew: pgsluice resync {version.qualified}; or leave it out with exclude_tables",
        table=version.qualified,
    )


class ReadyTables(Generic[Table]):
    """
    Remembers tables that were made or widened.

    Args:
        make: brings the target's table to a version of the source's; told whether it must be there.
    """

    def __init__(self, make: Callable[[TableVersion, bool], Table]) -> None:
        self._make = make
        self._ready: dict[TableVersion, Table] = {}

    def forget(self) -> None:
        """Look at the target again: what was made in a transaction that was rolled back is not there."""
        self._ready.clear()

    def ready(self, version: TableVersion, *, held: bool = False) -> Table:
        """The table, made or widened so that it takes rows of this version; one that is held is not made."""
        if version not in self._ready:
            # What another version of the table relied on may be no longer so.
            others = {
                known: made for known, made in self._ready.items() if known.qualified != version.qualified
            }
            self._ready = {**others, version: self._make(version, held)}
        return self._ready[version]
