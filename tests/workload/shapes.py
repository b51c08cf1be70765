"""Tables of every shape, each with random columns and with what can be done to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.workload.values import (
    Column,
    Kind,
    KindColumn,
    LargeColumn,
    UniqueColumn,
    key_kinds,
    quoted,
    random_columns,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

ODD_NAMES = (
    'a"b', "Spalte ö", "%s", "c.d", "{}", "\\N", "x" * 63, "tab\there", " blank ", "🐘", "select",
    "new\nline", "it's", "$1", "--",
    "c0", "k0", "t", "rows", "keys", "gone", "copies", "values", "_op", "relation",  # as in ours
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A table that acts can write to."""

    name: str  # as SQL writes it, with the schema
    make: tuple[str, ...]  # statements
    number: str = "id"  # the column that numbers the rows, as SQL writes it; "" if it has no columns
    columns: tuple[Column, ...] = ()  # the others that acts may write
    is_key: bool = True  # whether there is one row of a number at most
    reverses: tuple[str, ...] = ()  # columns whose values may change places in one statement
    swaps: tuple[str, ...] = ()  # columns whose values change places by way of a third one
    renews: str = ""  # a column that takes its next default
    truncates: tuple[
        str, ...
    ] = ()  # statements, of which one empties it or a part; none: it is never emptied
    inserts_from: str = ""  # rows are made for rows of this table, instead of a series of numbers
    refers_by: str = ""  # the column that says for which

    @property
    def free_columns(self) -> list[Column]:
        """Those that an act may set as it likes."""
        return [column for column in self.columns if not column.is_unique]


def all_shapes(
    dice: random.Random, kinds: Sequence[Kind], *, virtual: bool, without_columns: bool
) -> tuple[Table, ...]:
    """One table of every shape at least."""
    make = _Maker(dice, kinds)
    tables = [
        make.plain("s.plain"),
        make.plain("s.full", "ALTER TABLE s.full REPLICA IDENTITY FULL"),
        make.dropped_column("s.gap"),
        make.awkward_key("s.awkward"),
        make.awkward_key("s.awkward_too"),
        make.keyless("s.keyless"),
        make.keyless("s.keyless_too"),
        make.by_index("s.by_index"),
        make.unique("s.uniques", deferrable=False),
        make.unique("s.deferred", deferrable=True),
        make.deferrable_key("s.deferrable"),
        make.partitioned("s.regions"),
        make.keyless_partitioned("s.drawers"),
        *make.inherited("s.parent", "s.child"),
        make.generated("s.generated", virtual=virtual),
        make.odd_names(),
        make.documents("s.documents"),
        *make.family("s.head", "s.kin"),
        Table("s.empty", ("CREATE TABLE s.empty (id bigint PRIMARY KEY, v text)",), number=""),
    ]
    if without_columns:
        tables.append(make.without_columns("s.nothing"))
    return tuple(tables)


@dataclass(frozen=True, slots=True)
class _Maker:
    dice: random.Random
    kinds: Sequence[Kind]

    def columns(self, *names: str) -> tuple[KindColumn, ...]:
        chosen = names or ("a", "b", "c", "d", "e")[: self.dice.randint(1, 5)]
        return random_columns(self.dice, self.kinds, chosen)

    def plain(self, name: str, *more: str) -> Table:
        columns = self.columns()
        return Table(
            name,
            (f"CREATE TABLE {name} (id bigint PRIMARY KEY, {_body(columns)})", *more),
            columns=columns,
            swaps=("id",),
            truncates=(f"TRUNCATE {name}", f"TRUNCATE {name} RESTART IDENTITY"),
        )

    def dropped_column(self, name: str) -> Table:
        """Numbers of columns with a gap."""
        columns = self.columns()
        return Table(
            name,
            (
                f"CREATE TABLE {name} (gone int, {_body(columns)}, gone_too text, id bigint PRIMARY KEY)",
                f"ALTER TABLE {name} DROP COLUMN gone, DROP COLUMN gone_too",
            ),
            columns=columns,
            truncates=(f"TRUNCATE {name}",),
        )

    def awkward_key(self, name: str) -> Table:
        """A key with a type whose text and equality don't agree, or whose text is hard to carry."""
        key = KindColumn("k", self.dice.choice(key_kinds(self.kinds)), nullable=False)
        columns = (key, *self.columns())
        return Table(
            name,
            (f"CREATE TABLE {name} ({_body(columns)}, id bigint, PRIMARY KEY (k, id))",),
            columns=columns,
            truncates=(f"TRUNCATE {name}",),
        )

    def keyless(self, name: str) -> Table:
        """Equal rows, several times."""
        columns = self.columns("a", "b")
        return Table(
            name,
            (
                f"CREATE TABLE {name} (id bigint, {_body(columns)})",
                f"ALTER TABLE {name} REPLICA IDENTITY FULL",
            ),
            columns=columns,
            is_key=False,
            truncates=(f"TRUNCATE {name}",),
        )

    def by_index(self, name: str) -> Table:
        """The identity is not the key: a change of the key brings no old row."""
        columns = (UniqueColumn("code"), *self.columns())
        return Table(
            name,
            (
                f"CREATE TABLE {name} (id bigint PRIMARY KEY, {_body(columns)})",
                f"CREATE UNIQUE INDEX by_index_code ON {name} (code) INCLUDE (id)",
                f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX by_index_code",
            ),
            columns=columns,
            swaps=("id", "code"),
            truncates=(f"TRUNCATE {name}",),
        )

    def unique(self, name: str, *, deferrable: bool) -> Table:
        """A unique value besides the key."""
        columns = (UniqueColumn("code"), *self.columns())
        rule = "UNIQUE (code) DEFERRABLE INITIALLY DEFERRED" if deferrable else "UNIQUE (code)"
        return Table(
            name,
            (f"CREATE TABLE {name} (id bigint PRIMARY KEY, {_body(columns)}, {rule})",),
            columns=columns,
            swaps=("id", "code"),
            reverses=("code",) if deferrable else (),
            truncates=(f"TRUNCATE {name}",),
        )

    def deferrable_key(self, name: str) -> Table:
        """A key that is no identity, because it is checked late."""
        columns = self.columns()
        return Table(
            name,
            (
                f"CREATE TABLE {name} (id bigint PRIMARY KEY DEFERRABLE, {_body(columns)})",
                f"ALTER TABLE {name} REPLICA IDENTITY FULL",
            ),
            columns=columns,
            reverses=("id",),
            truncates=(f"TRUNCATE {name}",),
        )

    def partitioned(self, name: str) -> Table:
        """Rows that move between partitions, one of which has partitions of its own."""
        region = KindColumn("region", Kind("text", ("north", "south", "east", "Öst'")), nullable=False)
        columns = (region, *self.columns())
        return Table(
            name,
            (
                (
                    f"CREATE TABLE {name} (id bigint, {_body(columns)}, PRIMARY KEY (region, id))"
                    " PARTITION BY LIST (region)"
                ),
                f"CREATE TABLE {name}_n PARTITION OF {name} FOR VALUES IN ('north')",
                f"CREATE TABLE {name}_s PARTITION OF {name} FOR VALUES IN ('south') PARTITION BY RANGE (id)",
                f"CREATE TABLE {name}_s1 PARTITION OF {name}_s FOR VALUES FROM (MINVALUE) TO (0)",
                f"CREATE TABLE {name}_s2 PARTITION OF {name}_s FOR VALUES FROM (0) TO (MAXVALUE)",
                f"CREATE TABLE {name}_d PARTITION OF {name} DEFAULT",
            ),
            columns=columns,
            swaps=("id",),
            truncates=tuple(f"TRUNCATE {name}{leaf}" for leaf in ("", "_n", "_s", "_s2", "_d")),
        )

    def keyless_partitioned(self, name: str) -> Table:
        """Equal rows in partitions."""
        columns = self.columns("a")
        drawers = [f"{name}_{number}" for number in range(3)]
        return Table(
            name,
            (
                f"CREATE TABLE {name} (id bigint, {_body(columns)}) PARTITION BY HASH (id)",
                *(
                    f"CREATE TABLE {drawer} PARTITION OF {name}"
                    f" FOR VALUES WITH (MODULUS 3, REMAINDER {number})"
                    for number, drawer in enumerate(drawers)
                ),
                *(f"ALTER TABLE {drawer} REPLICA IDENTITY FULL" for drawer in drawers),
            ),
            columns=columns,
            is_key=False,
            truncates=(f"TRUNCATE {name}", f"TRUNCATE {drawers[0]}, {drawers[2]}"),
        )

    def inherited(self, parent: str, child: str) -> tuple[Table, Table]:
        """Statements on the parent reach the child too."""
        columns, more = self.columns(), self.columns("f", "g")
        truncates = (f"TRUNCATE {parent}", f"TRUNCATE ONLY {parent}", f"TRUNCATE {child}")
        return (
            Table(
                parent,
                (f"CREATE TABLE {parent} (id bigint PRIMARY KEY, {_body(columns)})",),
                columns=columns,
                truncates=truncates,
            ),
            Table(
                child,
                (f"CREATE TABLE {child} ({_body(more)}, PRIMARY KEY (id)) INHERITS ({parent})",),
                columns=(*columns, *more),
                truncates=truncates,
            ),
        )

    def generated(self, name: str, *, virtual: bool) -> Table:
        """The key is the server's, and so are columns that follow from others."""
        columns = self.columns()
        lazy = ", lazy text GENERATED ALWAYS AS (n || '!') VIRTUAL" if virtual else ""
        return Table(
            name,
            (
                (
                    f"CREATE TABLE {name} (twice bigint GENERATED ALWAYS AS (n * 2) STORED,"
                    f" id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n bigint, {_body(columns)}{lazy},"
                    " s serial)"
                ),
            ),
            number="n",
            columns=columns,
            renews="id",
            truncates=(f"TRUNCATE {name} RESTART IDENTITY", f"TRUNCATE {name}"),
        )

    def odd_names(self) -> Table:
        """Names that have to be quoted everywhere."""
        name = f"{quoted('Größe; %s')}.{quoted('Ta' + chr(10) + 'fel {x}.y')}"
        number, *names = self.dice.sample(ODD_NAMES, 5)
        columns = self.columns(*map(quoted, names))
        return Table(
            name,
            (
                f"CREATE SCHEMA {quoted('Größe; %s')}",
                f"CREATE TABLE {name} ({quoted(number)} bigint PRIMARY KEY, {_body(columns)})",
            ),
            number=quoted(number),
            columns=columns,
            swaps=(quoted(number),),
            truncates=(f"TRUNCATE {name}",),
        )

    def documents(self, name: str) -> Table:
        """Large values, which most changes don't touch."""
        columns = (*self.columns("a"), LargeColumn("body"), LargeColumn("note"))
        return Table(
            name,
            (
                f"CREATE TABLE {name} (id bigint PRIMARY KEY, {_body(columns)})",
                f"ALTER TABLE {name} ALTER body SET STORAGE EXTERNAL",
            ),
            columns=columns,
            swaps=("id",),
            truncates=(f"TRUNCATE {name}",),
        )

    def family(self, head: str, kin: str) -> tuple[Table, Table]:
        """Rows that follow others by a foreign key, and a trigger that writes on its own."""
        columns, more = self.columns(), self.columns("f")
        both = (f"TRUNCATE {head} CASCADE", f"TRUNCATE {head}, {kin}")
        return (
            Table(
                head,
                (
                    f"CREATE TABLE {head} (id bigint PRIMARY KEY, {_body(columns)}, seen int DEFAULT 0)",
                    (
                        "CREATE FUNCTION s.see() RETURNS trigger LANGUAGE plpgsql AS"
                        " $$BEGIN NEW.seen := NEW.seen + 1; RETURN NEW; END$$"
                    ),
                    f"CREATE TRIGGER see BEFORE UPDATE ON {head} FOR EACH ROW EXECUTE FUNCTION s.see()",
                ),
                columns=columns,
                truncates=both,
            ),
            Table(
                kin,
                (
                    (
                        f"CREATE TABLE {kin} (id bigint PRIMARY KEY, head bigint NOT NULL REFERENCES {head}"
                        f" ON UPDATE CASCADE ON DELETE CASCADE, {_body(more)})"
                    ),
                ),
                columns=more,
                truncates=both,
                inserts_from=head,
                refers_by="head",
            ),
        )

    def without_columns(self, name: str) -> Table:
        """Nothing but the number of its rows."""
        return Table(name, (f"CREATE TABLE {name} ()",), number="", truncates=(f"TRUNCATE {name}",))


def _body(columns: Sequence[Column]) -> str:
    return ", ".join(f"{column.name} {column.definition}" for column in columns)
