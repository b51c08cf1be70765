"""Which columns make the identity of a table's rows, and which expression their version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pgsluice.errors import ConfigError
from pgsluice.schema.type_names import base_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgsluice.schema.renames import TableName
    from pgsluice.schema.table import Column, PgType, TableVersion
    from pgsluice.schema.table_facts import TableFacts

IdentityFinder = Callable[["TableVersion"], Sequence[str] | None]
"""Gives the columns that tell rows of a table apart; None or nothing: it has no identity."""

VersionFinder = Callable[["TableVersion"], str | None]
"""Gives Spark SQL over a table's typed columns, which makes an integer; None: the position of the change."""

_DAY: Final = 86_400_000_000  # microseconds
_VERSIONS: Final[Mapping[str, str]] = {
    "int2": "{}",
    "int4": "{}",
    "int8": "{}",
    "date": f"unix_date({{}}) * {_DAY}",
    "timestamptz": "unix_micros({})",
    # Without a detour over the session's time zone.
    "timestamp": (
        "bigint(CAST(CAST({} - TIMESTAMP_NTZ '1970-01-01' AS INTERVAL SECOND) AS DECIMAL(20, 6)) * 1000000)"
    ),
}


def default_identity(version: TableVersion) -> tuple[str, ...]:
    """
    The primary key, else the best unique index without NULL; else all columns under FULL, or nothing.

    Always something that a DELETE brings too, and in the order of the table's columns.
    """
    names = tuple(column.name for column in version.columns)
    sent = {version.columns[place].name for place in version.merge_key}
    # The catalog's names may be newer than those of the stream.
    known = bool(version.naming) and sent.union(() if sent else names).issuperset(version.naming)
    found = set(version.naming) if known else sent or set(names if version.identity == "f" else ())
    return tuple(name for name in names if name in found)


def version_expression(name: str, type_: PgType) -> str | None:
    """Spark SQL that makes an integer of a column's value; None for types that have no order of that kind."""
    base = base_type(type_)
    if base.schema != "pg_catalog" or base.name not in _VERSIONS:
        return None
    return _VERSIONS[base.name].format(f"`{name.replace('`', '``')}`")


class NamedColumns:
    """Columns that a configuration names, by table. Both are followed when they are renamed."""

    def __init__(self, named: Mapping[TableName, Sequence[str]]) -> None:
        self.named = {table: tuple(names) for table, names in named.items()}
        self._tables: dict[int, tuple[str, ...]] = {}  # by number
        self._numbers: dict[tuple[int, str], int] = {}  # by number of the table and configured name

    def know(self, tables: Iterable[TableFacts]) -> None:
        """Learn which columns are meant, from the catalog that the configuration was written for."""
        for table in tables:
            for name in self.named.get((table.schema, table.name), ()):
                numbers = {column.name: column.number for column in table.columns}
                self._tables[table.relid] = self.named[table.schema, table.name]
                self._numbers[table.relid, name] = numbers.get(name, 0)

    def of(self, version: TableVersion) -> list[Column] | None:
        """The columns that are named for a table; None when it has no such names."""
        named = self.named.get((version.schema, version.name))
        names = self._tables.get(version.relid) if named is None else named
        if names is None:
            return None
        self._tables.setdefault(version.relid, names)
        return [self._column(version, name) for name in names]

    def _column(self, version: TableVersion, name: str) -> Column:
        number = self._numbers.get((version.relid, name), 0)
        meant = f"{version.relid}-{number}" if number else None
        columns = version.columns
        found = [each for each in columns if version.column_id(each) == meant]
        found = found or [each for each in columns if each.name == name]
        found = found or [each for each in columns if name in version.former_names(each)]
        if len(found) != 1:
            raise ConfigError(
                f"the injector names {name} of {version.qualified}, which has no such column",
                remedy="Mend modifiers.injector, and start again",
                table=version.qualified,
            )
        return found[0]


class ConfiguredIdentity:
    """The identity that a configuration names, or the usual one."""

    def __init__(self, named: Mapping[TableName, Sequence[str]]) -> None:
        self.columns = NamedColumns(named)

    def __call__(self, version: TableVersion) -> tuple[str, ...]:
        """The columns of a table's identity."""
        found = self.columns.of(version)
        return default_identity(version) if found is None else tuple(column.name for column in found)


class ConfiguredVersion:
    """The column that a configuration names as version, or the position."""

    def __init__(self, named: Mapping[TableName, str]) -> None:
        self.columns = NamedColumns({table: (name,) for table, name in named.items()})

    def __call__(self, version: TableVersion) -> str | None:
        """The expression of a table's versions."""
        found = self.columns.of(version)
        if found is None:
            return None
        (column,) = found
        expression = version_expression(column.name, column.type)
        if expression is None:
            raise ConfigError(
                f"{version.qualified}.{column.name} can't be a version by its type",
                remedy="Name a column of integers, timestamps or dates under modifiers.injector.version",
                table=version.qualified,
            )
        return expression
