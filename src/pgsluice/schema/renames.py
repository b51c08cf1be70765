"""
What tables are called in a target, where that is not what they are called in the source.

A table of its own (``public.orders: sales.orders``) wins over its schema (``public: sales``).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pgsluice.errors import ConfigError
from pgsluice.schema.match import TablePattern
from pgsluice.schema.quotes import bare, quoted
from pgsluice.schema.statements import SchemaStatement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pgsluice.schema.table import TableVersion

TableName = tuple[str, str]
"""Schema and name."""

_QUOTED: Final = r'("(?:[^"]|"")+")'
_QUALIFIED: Final = re.compile(rf"{_QUOTED}\.{_QUOTED}")
_SCHEMA: Final = re.compile(rf"\bSCHEMA {_QUOTED}")
_ALIAS: Final = re.compile(r'\s+"')


@dataclass(frozen=True, slots=True)
class Renames:
    """Other names for schemas and tables; everything else keeps its own."""

    schemas: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[TableName, TableName] = field(default_factory=dict)

    @classmethod
    def parse(cls, schemas: Mapping[str, str], tables: Mapping[str, str]) -> Renames:
        """Read names of tables as people write them."""
        return cls(
            dict(schemas), {table_name(source): table_name(target) for source, target in tables.items()}
        )

    def __bool__(self) -> bool:
        return bool(self.schemas or self.tables)

    def __str__(self) -> str:
        """The same text for the same names."""
        tables = sorted((".".join(source), ".".join(target)) for source, target in self.tables.items())
        return ", ".join(f"{source}: {target}" for source, target in [*sorted(self.schemas.items()), *tables])

    def table(self, name: TableName) -> TableName:
        """The name in the target."""
        return self.tables.get(name) or (self.schemas.get(name[0], name[0]), name[1])

    def with_owned(self, sequences: Mapping[TableName, TableName]) -> Renames:
        """The same with sequences, by the table that owns them: they must be in its schema."""
        moved = {
            sequence: (self.table(owner)[0], sequence[1])
            for sequence, owner in sequences.items()
            if owner in self.tables
        }
        return replace(self, tables={**self.tables, **moved})

    def version(self, version: TableVersion) -> TableVersion:
        """A table version under its name in the target."""
        schema, name = self.table((version.schema, version.name))
        return replace(version, schema=schema, name=name)

    def require_distinct(self, names: Iterable[TableName]) -> None:
        """Raise when two tables of the source would be one in the target."""
        tables = list(names)
        taken = Counter(self.table(name) for name in tables)
        for target, count in taken.items():
            if count > 1:
                both = [".".join(name) for name in tables if self.table(name) == target]
                raise ConfigError(
                    f"{' and '.join(both)} would both be {'.'.join(target)} in the target",
                    remedy="Give one of them another name under tables of the target",
                )

    def statements(self, statements: Iterable[SchemaStatement]) -> tuple[SchemaStatement, ...]:
        """Statements in which all identifiers are quoted, with the names of the target."""
        wanted = {*self.schemas.values(), *(schema for schema, _ in self.tables.values())}
        made = [
            SchemaStatement("SCHEMA", schema, f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
            for schema in sorted(wanted)
        ]
        renamed = [replace(self._renamed(each), sql=self._statement(each)) for each in statements]
        return (*made, *renamed)

    def _renamed(self, statement: SchemaStatement) -> SchemaStatement:
        if not statement.place[0]:
            return statement
        schema, name = self.table(statement.place)
        return replace(statement, name=f"{schema}.{name}", schema=schema)

    def _statement(self, statement: SchemaStatement) -> str:
        if not statement.kind.endswith("VIEW"):
            return self.sql(statement.sql)
        head, word, query = statement.sql.partition(" AS")
        return self.sql(head) + word + self.query(query)

    def query(self, text: str) -> str:
        """The query of a view. Columns are named by their tables: one with another name here is called so."""

        def named(found: re.Match[str]) -> str:
            schema, name = bare(found[1]), bare(found[2])
            there = self.table((schema, name))
            has_alias = _ALIAS.match(text, found.end()) is not None
            alias = "" if there[1] == name or has_alias else f" {quoted(name)}"
            return ".".join(map(quoted, there)) + alias

        return _QUALIFIED.sub(named, text)

    def sql(self, text: str) -> str:
        """SQL in which all names are quoted, with the names of the target."""
        text = _QUALIFIED.sub(
            lambda found: ".".join(map(quoted, self.table((bare(found[1]), bare(found[2]))))), text
        )
        return _SCHEMA.sub(
            lambda found: f"SCHEMA {quoted(self.schemas.get(bare(found[1]), bare(found[1])))}", text
        )


def table_name(text: str) -> TableName:
    """Read the name of one table, as people write it."""
    pattern = TablePattern.parse(text)
    if pattern.schema is None or pattern.table is None:
        raise ConfigError(f"{text!r} is not the name of one table", remedy="Write schema.table, without *")
    return pattern.schema, pattern.table
