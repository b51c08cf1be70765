"""What a database has at the moment, for random statements about it; odd names for what it has not yet."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgsluice.schema.quotes import quoted

if TYPE_CHECKING:
    import random

    import psycopg

PREFIX = "s_"  # of every schema: pg_dump finds them by it
_SHAPES = ("t{}", "t{}", "T {}", "ä{}ß", 'q"{}', "d.o.t{}", "%s{}", "sélect{}", "it's {}", "UPPER{}", "表{}")
_VALUES = {
    "integer": ("{}", "NULL"),
    "bigint": ("{} * 10000000000", "NULL"),
    "smallint": ("{} % 30000",),
    "text": ("'täxt {}'", "''", "E'back\\\\slash \\n {}'", "NULL"),
    "boolean": ("{} % 2 = 0", "NULL"),
    "date": ("date '2020-01-01' + {} % 1000",),
    "timestamp with time zone": ("now()", "timestamptz '2001-02-03 04:05:06.789+02'"),
    "jsonb": ("""'{{"a": [{}, null]}}'""", "NULL"),
    "uuid": ("gen_random_uuid()",),
    "double precision": ("{} / 7.0", "'NaN'"),
    "bytea": ("'\\x00{}ff'::text::bytea", "NULL"),
    "integer[]": ("ARRAY[{}, NULL, 3]", "'{{}}'"),
}
TYPES = (*_VALUES, "numeric(12,2)", "character varying(40)")
_CATALOG = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relispartition,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname LIKE 's\\_%' AND c.relkind IN ('r', 'p') ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typtype::text, a.attgenerated <> '',
       a.attidentity <> '', format_type(t.typbasetype, t.typtypmod)
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
 WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column."""

    name: str
    type: str
    kind: str  # pg_type.typtype
    is_generated: bool
    is_identity: bool
    base: str | None  # of a domain

    @property
    def sql(self) -> str:
        """Its name as SQL."""
        return quoted(self.name)


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    oid: int
    schema: str
    name: str
    kind: str
    is_partition: bool
    has_key: bool
    columns: tuple[Column, ...]

    @property
    def sql(self) -> str:
        """Its name as SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


class World:
    """The source as the connection sees it now: inside of a transaction too."""

    def __init__(self, conn: psycopg.Connection[Any], dice: random.Random) -> None:
        self.conn = conn
        self.dice = dice
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """A number that nobody had."""
        return next(self._numbers)

    def name(self) -> str:
        """A name that nobody had, often one that needs quotes."""
        return self.dice.choice(_SHAPES).format(next(self._numbers))

    def new(self) -> str:
        """The same as SQL."""
        return quoted(self.name())

    def some(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        """One of the rows of a query about the catalog, which has an order of its own."""
        found = self.conn.execute(query, values or None).fetchall()
        return self.dice.choice(found) if found else None

    def schema(self) -> str:
        """A schema, as SQL."""
        found = self.some("SELECT nspname FROM pg_namespace WHERE nspname LIKE 's\\_%' ORDER BY 1")
        assert found is not None
        return quoted(found[0])

    def tables(self, kinds: str = "rp") -> list[Table]:
        """The tables of some kinds."""
        return [
            Table(*row, tuple(Column(*column) for column in self.conn.execute(_COLUMNS, (row[0],))))
            for row in self.conn.execute(_CATALOG).fetchall()
            if row[3] in kinds
        ]

    def table(self, kinds: str = "rp") -> Table | None:
        """One of them."""
        found = self.tables(kinds)
        return self.dice.choice(found) if found else None

    def named(self, catalog: str, prefix: str, where: str = "true") -> str | None:
        """The name of something that is in a schema, as SQL."""
        found = self.some(
            f"SELECT n.nspname, o.{prefix}name FROM {catalog} o"
            f" JOIN pg_namespace n ON n.oid = o.{prefix}namespace"
            f" WHERE n.nspname LIKE 's\\_%' AND {where} ORDER BY 1, 2"
        )
        return f"{quoted(found[0])}.{quoted(found[1])}" if found else None

    def type(self) -> str:
        """A type for a column, as SQL."""
        if self.dice.random() < 0.25:
            own = self.named("pg_type", "typ", "o.typtype IN ('e', 'd')") or self.composite()
            if own:
                return own
        return self.dice.choice(TYPES)

    def composite(self) -> str | None:
        """A composite type."""
        return self.named("pg_class", "rel", "o.relkind = 'c'")

    def value(self, of: Column) -> str:
        """A value for a column, as SQL."""
        if of.kind == "e":
            return f"(enum_range(NULL::{of.type}))[{self.dice.randint(1, 4)}]"
        if of.kind == "c":
            return self.dice.choice(("NULL", f"json_populate_record(NULL::{of.type}, '{{}}')"))
        kind = of.base if of.kind == "d" else of.type
        return f"({self.plain_value(kind or 'text')})::{of.type}"

    def plain_value(self, kind: str) -> str:
        """A value of a built-in type."""
        number = self.dice.randrange(1, 3000)
        if kind.startswith("numeric"):
            return f"{number}.25"
        if kind.startswith("character varying"):
            return f"'{number} ö'"
        return self.dice.choice(_VALUES.get(kind, ("NULL",))).format(number)
