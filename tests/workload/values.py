"""
Types, and their values as SQL computes them from the number of a row: thousands of rows by one statement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tests.schema import type_cases

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

PREPARE = (
    *type_cases.PREPARE,
    "CREATE TYPE kinds.nested AS (p kinds.point, tags text[], price kinds.price)",
    "CREATE TYPE kinds.floats AS RANGE (subtype = float8)",
)
"""What the types need in their database."""

EXTENSIONS = ("citext", "hstore", "ltree")
"""Those with types of their own; used where source and target have them."""

_SUMS = 32768  # of 32 characters each: 1 MiB


@dataclass(frozen=True, slots=True)
class Kind:
    """A type and some of its values."""

    type: str  # as SQL declares it
    values: tuple[str, ...]
    extension: str | None = None

    def value(self, number: str, salt: int, *, nullable: bool = True) -> str:
        """The value of a row, chosen by its number."""
        listed = [literal(value) for value in self.values] + ["NULL"] * nullable
        place = f"1 + ({number} % 1000003 * 7 + {salt}) % {len(listed)}"
        return f"(ARRAY[{', '.join(listed)}]::text[])[{place}]::{self.type}"


class Column(Protocol):
    """A column whose value follows from the row's number and a salt, which is another one in each act."""

    name: str  # as SQL writes it
    definition: str  # its type and what goes with it
    is_unique: bool  # no act may set it as it likes

    def value(self, number: str, salt: int) -> str:
        """The value, as SQL; ``number`` is SQL too, and not negative."""


@dataclass(frozen=True, slots=True)
class KindColumn:
    """A column of any type."""

    name: str
    kind: Kind
    nullable: bool = True
    is_unique: bool = False

    @property
    def definition(self) -> str:
        """Its type."""
        return self.kind.type if self.nullable else f"{self.kind.type} NOT NULL"

    def value(self, number: str, salt: int) -> str:
        """One of the type's values, or NULL."""
        return self.kind.value(number, salt, nullable=self.nullable)


@dataclass(frozen=True, slots=True)
class UniqueColumn:
    """A column that numbers the rows, too."""

    name: str
    definition: str = "bigint NOT NULL"
    is_unique: bool = True

    def value(self, number: str, salt: int) -> str:
        """The number; it is the row's own only until the first swap."""
        del salt
        return number


@dataclass(frozen=True, slots=True)
class LargeColumn:
    """Texts that are stored out of line, some of them of 1 MiB."""

    name: str
    definition: str = "text"
    is_unique: bool = False

    def value(self, number: str, salt: int) -> str:
        """Of every four hundred one is 1 MiB, of three one is out of line."""
        once = f"md5(({number} + {salt})::text)"
        return (
            f"CASE WHEN ({number} + {salt}) % 400 = 0 THEN {large_text(number, salt)} "
            f"WHEN ({number} + {salt}) % 3 = 0 THEN repeat({once}, 90) ELSE {once} END"
        )


def large_text(number: str, salt: int) -> str:
    """1 MiB."""
    return f"repeat(md5(({number} + {salt})::text), {_SUMS})"


_TEXTS = (
    "", "\\N", "NULL", "null", "\\.", "\\", "a\\", "\\t", "\t", "\n", "\r\n", "\v\f\b", "'", "{}",
    "{NULL}", "NaN", " ", "\x01", "é vs é", "\ufeff", "🐘🐘", "x" * 3000, "0", "t", "$$", "%s", "-- ;",
    "\u2028",
)  # fmt: skip

KINDS = (
    *(Kind(cases.type, cases.values) for cases in type_cases.CASES),
    Kind("text", _TEXTS),
    Kind("varchar", _TEXTS),
    Kind("char(6)", ("", " ", "ab", "\\N", "NULL", "é\t")),
    Kind("text[]", ("{}", '{{a,NULL},{"NULL",""}}', "[0:1]={a,b}", "[-1:0][2:3]={{1,2},{3,4}}", '{"\\\\N"}')),
    Kind("int4[]", ("{}", "[2:3]={5,6}", "{{{1},{2}},{{3},{NULL}}}")),
    Kind("timestamp(0)", ("2024-02-29 23:59:59.9", "infinity", "0044-03-15 BC")),
    Kind("time(3)", ("24:00:00", "23:59:59.9999", "00:00")),
    Kind("interval day to second", ("1 day -00:00:01", "-3 days", "100:00:00")),
    Kind("int8range", ("empty", "(,5]", "[-9223372036854775808,)")),
    Kind("numrange", ("[1.0,1.00]", "(,NaN)", "[-Infinity,Infinity]")),
    Kind("daterange", ("[2024-01-01,infinity)", "[2024-01-01,)", "['0044-03-15 BC',2024-01-01)")),
    Kind("tstzrange", ('["2024-01-01 00:00:00+00",infinity]', "empty", '[,"0044-03-15 00:00:00+00 BC"]')),
    Kind("int4multirange", ("{}", "{[1,3),[5,9)}", "{(,)}")),
    Kind("kinds.floats", ("[NaN,NaN]", "(-Infinity,0]", "empty")),
    Kind("kinds.nested", ('("(1,""a, b"")","{x,NULL,""NULL""}",1.5)', "(,,)", '("(,)",{},0)')),
    Kind("kinds.nested[]", ('{"(,,)",NULL}', "{}")),
    Kind("point", ("(0,-0)", "(NaN,Infinity)", "(1e300,-1e-300)")),
    Kind("polygon", ("((0,0),(1,1),(1,0))",)),
    Kind("circle", ("<(0,0),1>", "<(NaN,0),Infinity>")),
    Kind("cidr", ("10.0.0.0/8", "::/0")),
    Kind("macaddr", ("08:00:2b:01:02:03",)),
    Kind("macaddr8", ("08:00:2b:01:02:03:04:05",)),
    Kind("varbit", ("", "1", "0101")),
    Kind("tsvector", ("'a':1A 'b''c':2,3", "", "' ':1")),
    Kind("tsquery", ("'a' & !'b' | 'c'", "")),
    Kind("pg_lsn", ("0/0", "FFFFFFFF/FFFFFFFF")),
    Kind("xid8", ("0", "18446744073709551615")),
    Kind("oid", ("0", "4294967295")),
    Kind("regtype", ("int4", "kinds.point", "kinds.mood[]")),
    Kind("jsonpath", ('$."a b"[*] ? (@.x > 1)', "strict $")),
    Kind("citext", ("A", "a", "É", "", "\\N"), extension="citext"),
    Kind("hstore", ("", '"a"=>NULL, "b"=>"NULL"', '"q\\"q"=>"\\\\N"'), extension="hstore"),
    Kind("ltree", ("a.b.c", ""), extension="ltree"),
)  # fmt: skip

_AFTER_DUCKDB = "294276-"  # the last year of PostgreSQL's timestamps

_IN_KEYS = {
    "text", "varchar", "varchar(5)", "char(6)", "numeric", "numeric(12,2)", "float8", "date", "timestamp",
    "timestamptz", "time", "timetz", "interval", "uuid", "bytea", "kinds.mood", "kinds.price", "kinds.point",
    "inet", "int4[]", "text[]", "int4range", "jsonb", "money", "bit(3)", "citext", "ltree", "pg_lsn", "bool",
}  # fmt: skip
"""Types that can be in a key, and whose values differ in text where they don't in order, or the other way."""


def usable_kinds(extensions: Sequence[str], *, for_duckdb: bool = False) -> list[Kind]:
    """The types that these databases can have."""
    found = [kind for kind in KINDS if kind.extension is None or kind.extension in extensions]
    return [_without_misfits(kind) for kind in found] if for_duckdb else found


def _without_misfits(kind: Kind) -> Kind:
    """Without the values that DuckDB's type for it can't hold."""
    is_decimal = kind.type.startswith("numeric(") or kind.type == "kinds.amount"
    held = [
        value
        for value in kind.values
        if not (is_decimal and value == "NaN") and not value.startswith(_AFTER_DUCKDB)
    ]
    return replace(kind, values=tuple(held))


def key_kinds(kinds: Sequence[Kind]) -> list[Kind]:
    """Those that can be in a key."""
    return [kind for kind in kinds if kind.type in _IN_KEYS]


def random_columns(
    dice: random.Random, kinds: Sequence[Kind], names: Sequence[str]
) -> tuple[KindColumn, ...]:
    """Columns of random types."""
    return tuple(KindColumn(name, dice.choice(kinds)) for name in names)


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
