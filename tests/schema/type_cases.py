"""
Values of every type, ordinary and awkward, as SQL writes them.

The tests try them and ``docs/types.md`` shows what they become.

The text form of each comes from a real server, under the settings that every connection of ours pins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PREPARE = (
    "CREATE SCHEMA kinds",
    "CREATE TYPE kinds.mood AS ENUM ('sad', 'ok', 'very happy', '', 'NULL')",
    "CREATE TYPE kinds.point AS (x int4, y text)",
    "CREATE DOMAIN kinds.amount AS numeric(12,2)",
    "CREATE DOMAIN kinds.price AS kinds.amount CHECK (VALUE >= 0)",
    "CREATE DOMAIN kinds.days AS date[]",
)
"""What the cases need in their database."""


@dataclass(frozen=True, slots=True)
class Cases:
    """The values of one type."""

    type: str  # as SQL declares it
    fit: tuple[str, ...]  # values that the typed column holds
    misfit: tuple[str, ...] = field(default=())  # values that it can't hold

    @property
    def values(self) -> tuple[str, ...]:
        """All of them."""
        return self.fit + self.misfit


_DIGITS_38 = "9" * 38

CASES = (
    Cases("bool", ("true", "false")),
    Cases("int2", ("0", "-32768", "32767")),
    Cases("int4", ("0", "-2147483648", "2147483647")),
    Cases("int8", ("0", "-9223372036854775808", "9223372036854775807", "9007199254740993")),
    Cases(
        "float4",
        ("0", "-0", "1.5", "0.1", "16777217", "1e-45", "1.17549435e-38", "-3.4028235e38", "NaN", "Infinity",
         "-Infinity"),
    ),
    Cases(
        "float8",
        (
            "0", "-0", "1.5", "0.1", "9007199254740993", "5e-324", "2.2250738585072014e-308",
            "1.7976931348623157e308", "1e23", "NaN", "Infinity", "-Infinity",
        ),
    ),
    Cases("numeric(12,2)", ("0", "12.5", "-9999999999.99", "0.005"), ("NaN",)),
    Cases("numeric(38,0)", ("0", _DIGITS_38, f"-{_DIGITS_38}"), ("NaN",)),
    Cases("numeric(38,38)", ("0", f"0.{_DIGITS_38}", "0.00000000000000000000000000000000000001"), ("NaN",)),
    Cases("numeric(39,2)", ("1.25", "NaN")),
    Cases("numeric(3,-2)", ("12345", "-99900")),
    Cases("numeric(2,5)", ("0.00012",)),
    Cases("numeric", ("0", "1.50", "1e-400", f"{_DIGITS_38}{_DIGITS_38}.5", "NaN", "Infinity", "-Infinity")),
    Cases("money", ("12.34", "-1000000")),
    Cases(
        "text",
        (
            "", "plain", "NULL", " two  spaces ", "naïve 🐘 Ωmega", "line\nbreak\ttab",
            'back\\slash "quoted"',
            "infinity",
        ),
    ),
    Cases("varchar(5)", ("", "five5")),
    Cases("char(4)", ("ab", "")),
    Cases('"char"', ("a", "")),
    Cases("name", ("relation",)),
    Cases("uuid", ("00000000-0000-0000-0000-000000000000", "{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}")),
    Cases(
        "date",
        ("2024-02-29", "0001-01-01", "9999-12-31", "1582-10-10"),
        ("0044-03-15 BC", "4714-11-24 BC", "10000-01-01", "5874897-12-31", "infinity", "-infinity"),
    ),
    Cases("time", ("00:00:00", "12:34:56.789", "23:59:60", "24:00:00", "allballs")),
    Cases("timetz", ("12:34:56.789+05:30", "24:00:00-15:59")),
    Cases(
        "timestamp",
        (
            "2024-02-29 12:34:56", "2024-02-29 12:34:56.1", "2024-02-29 12:34:56.000001",
            "1969-12-31 23:59:59.999999",
            "2016-12-31 23:59:60", "2024-01-01 24:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999",
            "1582-10-10 01:02:03",
        ),
        (
            "0044-03-15 12:00:00.5 BC", "4714-11-24 00:00:00 BC", "10000-01-01 00:00:00",
            "294276-12-31 23:59:59.999999",
            "infinity", "-infinity",
        ),
    ),
    Cases(
        "timestamptz",
        (
            "2024-02-29 12:34:56+00", "2024-02-29 12:34:56.12345+05:45", "1900-01-01 00:00:00+00:19:32",
            "2024-03-31 02:30:00 Europe/Berlin", "1969-12-31 23:59:59.999999+00", "2024-01-01 24:00:00-12",
            "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00",
        ),
        (
            "0044-03-15 12:00:00+00 BC", "0001-01-01 00:00:00+14", "9999-12-31 23:59:59-01",
            "294276-12-31 23:59:59.999999+00",
            "infinity", "-infinity",
        ),
    ),
    Cases(
        "interval",
        (
            "0", "1 year 2 months 3 days 04:05:06.789", "-1 year +3 days -04:05:06", "P1Y2M3DT4H5M6S",
            "1.5 weeks ago",
            "178000000 years", "00:00:00.000001", "36:00:00",
        ),
    ),
    Cases("json", ('{"a": 9223372036854775807, "a": 1.10}', '"\\ud83d\\ude00"', "[1e400, null]", ' {"b":1}')),
    Cases("jsonb", ('{"b": 9223372036854775807, "a": 1.10}', '"\\ud83d\\ude00"', "[1e400, null]", '""')),
    Cases("bytea", ("\\x", "\\x00", "\\x00ff7f80", "\\xDEADBEEF")),
    Cases("kinds.mood", ("sad", "very happy", "", "NULL")),
    Cases("kinds.amount", ("1.5",), ("NaN",)),
    Cases("kinds.price", ("0", "1.5")),
    Cases("kinds.point", ('(1,"a, b")', "(,)")),
    Cases("int4range", ("[1,10)", "empty", "(,)")),
    Cases("inet", ("10.1.2.3/8", "::1")),
    Cases("bit(3)", ("101",)),
    Cases("int2vector", ("1 2 3",)),
    Cases("bool[]", ("{t,NULL,f}", "{}")),
    Cases("int4[]", ("{1,NULL,-3}", "{}", "{7}"), ("{{1,2},{3,4}}", "[2:3]={5,6}")),
    Cases("int8[]", ("{9223372036854775807,-9223372036854775808}",)),
    Cases("float8[]", ("{NaN,-0,5e-324,Infinity,NULL}",)),
    Cases("numeric(12,2)[]", ("{1.5,NULL,-2}",), ("{1,NaN}",)),
    Cases("numeric[]", ("{1.50,NaN,Infinity}",)),
    Cases(
        "text[]",
        (
            "{}", '{""}', '{NULL,"NULL",null,"null",nullable}', '{"a,b","{c}"," d ",e}',
            '{"q\\"q","b\\\\b","\\\\\\""}',
            '{naïve,"🐘 Ω",","}', '{"line\nbreak","\ttab"}', '{"[1:1]={x}"}', '{"}"}',
        ),
        ("{{a,b},{c,d}}", "[0:1]={a,b}", '{{"x,}"}}'),
    ),
    Cases("uuid[]", ("{00000000-0000-0000-0000-000000000000}",)),
    Cases("date[]", ("{2024-02-29,NULL}",), ("{2024-02-29,infinity}", '{"0044-03-15 BC"}')),
    Cases("timestamp[]", ('{"2024-02-29 12:34:56.5",NULL}',), ("{infinity}",)),
    Cases("timestamptz[]", ('{"2024-02-29 12:34:56.5+01"}',), ("{-infinity}",)),
    Cases("interval[]", ('{"1 day","-00:00:01"}',)),
    Cases("jsonb[]", ('{"{\\"a\\": [1, 2]}",NULL}',)),
    Cases("bytea[]", ('{"\\\\x00ff","\\\\x",NULL}',)),
    Cases("kinds.mood[]", ('{sad,"very happy","","NULL",NULL}',)),
    Cases("kinds.price[]", ("{1.5}",)),
    Cases("kinds.days", ("{2024-02-29}",), ("{infinity}",)),
    Cases("kinds.point[]", ('{"(1,\\"a, b\\")"}',)),
    Cases("int4range[]", ('{"[1,10)",empty}',)),
    Cases("box[]", ("{(1,1),(0,0);(2,2),(1,1)}",)),
)  # fmt: skip
