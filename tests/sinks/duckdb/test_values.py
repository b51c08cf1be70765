"""Every type of PostgreSQL in DuckDB: what it becomes, and that nothing changes on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from pgsluice.errors import TargetSchemaError
from pgsluice.schema.table import PgType
from pgsluice.sinks.base import SinkContext
from pgsluice.sinks.duckdb import KIND, DuckDBConfig
from pgsluice.testing.batches import UNCHANGED, Changes, table

if TYPE_CHECKING:
    from pathlib import Path

MOOD = PgType(1, "mood", "public", kind="enum")


def numeric(precision: int, scale: int) -> PgType:
    """A declared numeric."""
    return PgType(1700, "numeric", typmod=(precision << 16 | scale & 0x7FF) + 4)


def stored(
    path: Path, kind: str | PgType, *texts: str | None, **options: Any
) -> list[tuple[str, str | None]]:
    """Type and text, as DuckDB shows them, of values that went through the sink."""
    version = table("public.t", {"id": "int4", "value": kind}, key=["id"])
    changes = Changes()
    for number, text in enumerate(texts):
        changes.insert(version, str(number), text)
    sink = KIND.build(DuckDBConfig(path=path / "t.duckdb", threads=1, **options))
    try:
        sink.open(SinkContext("p", path))
        sink.apply(changes.batch(start=None, end="one"))
    finally:
        sink.close()
    with duckdb.connect(str(path / "t.duckdb")) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(
            "SELECT typeof(value), CAST(value AS VARCHAR) FROM public.t ORDER BY id"
        ).fetchall()


SAME = [
    ("int2", "SMALLINT", ["-32768", "32767"]),
    ("int4", "INTEGER", ["-2147483648", "2147483647"]),
    ("int8", "BIGINT", ["-9223372036854775808", "9223372036854775807"]),
    (numeric(12, 2), "DECIMAL(12,2)", ["0.10", "-9999999999.99"]),
    (numeric(38, 10), "DECIMAL(38,10)", ["1234567890123456789012345678.0123456789"]),
    (numeric(39, 2), "VARCHAR", ["1.00", "NaN"]),
    (numeric(3, -2), "VARCHAR", ["12300"]),
    ("numeric", "VARCHAR", ["1.0", "1.00", "NaN", "Infinity", "1" * 200]),
    ("text", "VARCHAR", ["", "NULL", " x ", "a\nb"]),
    ("bpchar", "VARCHAR", ["a   "]),
    ("uuid", "UUID", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("date", "DATE", ["2024-02-29", "infinity", "-infinity", "5874897-12-31", "0001-01-01"]),
    ("timestamp", "TIMESTAMP", ["2024-02-29 23:59:59.123456", "infinity", "10000-01-01 00:00:00"]),
    ("timestamptz", "TIMESTAMP WITH TIME ZONE", ["2024-02-29 23:59:59.1+00", "-infinity"]),
    ("time", "TIME", ["00:00:00", "23:59:59.999999", "24:00:00"]),
    ("timetz", "TIME WITH TIME ZONE", ["24:00:00+00", "10:00:00.5-15:59", "10:00:00+05:30:15"]),
    ("interval", "VARCHAR", ["-1 years +2 mons -3 days +04:05:06.789", "infinity"]),
    ("json", "JSON", ['{"b": 1.0,\n "a": 1e400, "a": null}', "null", '"\\u0000"']),
    ("jsonb", "JSON", ['{"a": [1, 2.50]}']),
    (MOOD, "VARCHAR", ["sad"]),
    ("int4[]", "VARCHAR", ["{1,NULL}", "{{1},{2}}", "[0:1]={1,2}"]),
    ("money", "VARCHAR", ["$1.00"]),
    ("int4range", "VARCHAR", ["[1,10)", "empty"]),
]


@pytest.mark.parametrize(
    ("kind", "name", "texts"), SAME, ids=[f"{case[1]}-{i}" for i, case in enumerate(SAME)]
)
def test_same_text(tmp_path: Path, kind: str | PgType, name: str, texts: list[str]):
    """DuckDB prints these values the way PostgreSQL does; NULL stays NULL."""
    assert stored(tmp_path, kind, *texts, None) == [*((name, text) for text in texts), (name, None)]


@pytest.mark.parametrize(
    ("kind", "name", "text", "shown"),
    [
        ("bool", "BOOLEAN", "t", "true"),
        ("bool", "BOOLEAN", "f", "false"),
        ("float4", "FLOAT", "1e-45", "1e-45"),
        ("float4", "FLOAT", "3.4028235e+38", "3.4028235e+38"),
        ("float8", "DOUBLE", "5e-324", "5e-324"),
        ("float8", "DOUBLE", "0.1", "0.1"),
        ("float8", "DOUBLE", "-0", "-0.0"),
        ("float8", "DOUBLE", "NaN", "nan"),
        ("float8", "DOUBLE", "-Infinity", "-inf"),
        ("bytea", "BLOB", "\\x", ""),
        ("bytea", "BLOB", "\\x00ff61", "\\x00\\xFFa"),
        ("date", "DATE", "0044-03-15 BC", "0044-03-15 (BC)"),
        ("date", "DATE", "4713-01-01 BC", "4713-01-01 (BC)"),
        ("timestamp", "TIMESTAMP", "0044-03-15 10:00:00.5 BC", "0044-03-15 (BC) 10:00:00.5"),
        (
            "timestamptz",
            "TIMESTAMP WITH TIME ZONE",
            "0044-03-15 10:00:00+00 BC",
            "0044-03-15 (BC) 10:00:00+00",
        ),
    ],
)
def test_other_text_for_the_same_value(tmp_path: Path, kind: str, name: str, text: str, shown: str):
    """DuckDB has its own way to print these; the value is the same."""
    assert stored(tmp_path, kind, text) == [(name, shown)]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int4[]", "{1,NULL,-3}", [1, None, -3]),
        ("int4[]", "{}", []),
        ("bool[]", "{t,f}", [True, False]),
        ("text[]", '{a,"b \\"c\\",{}",NULL,"NULL"}', ["a", 'b "c",{}', None, "NULL"]),
        ("text[]", '{"","x\\\\y\nz",null}', ["", "x\\y\nz", "null"]),
        ("bytea[]", '{"\\\\xdead"}', [b"\xde\xad"]),
    ],
)  # fmt: skip
def test_lists(tmp_path: Path, kind: str, text: str, value: list[Any]):
    """With arrays: list a one-dimensional array is a list of typed values."""
    stored(tmp_path, kind, text, None, arrays="list")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        found = connection.execute("SELECT value FROM public.t ORDER BY id").fetchall()
    assert found == [(value,), (None,)]


MISFITS = [
    (numeric(12, 2), "NaN", {}, r"1 value \(NaN\) of the column 'value' of public.t, numeric\(12,2\)"),
    ("timestamp", "294276-12-31 23:59:59.999999", {}, "timestamp without time zone"),
    ("timestamptz", "294276-12-31 23:59:59+00", {}, "TIMESTAMP WITH TIME ZONE"),
    ("json", '"\\ud800"', {}, "JSON"),
    ("int4[]", "{{1},{2}}", {"arrays": "list"}, r"integer\[\]"),
    ("text[]", "[0:0]={a}", {"arrays": "list"}, r"VARCHAR\[\]"),
]


@pytest.mark.parametrize(("kind", "text", "options", "message"), MISFITS)
def test_misfit_stops(tmp_path: Path, kind: str | PgType, text: str, options: dict[str, Any], message: str):
    """A value that DuckDB can't hold stops with the column's name and a remedy, and shows no data."""
    with pytest.raises(TargetSchemaError, match=message) as caught:
        stored(tmp_path, kind, text, **options)
    assert "VARCHAR" in caught.value.remedy
    assert text == "NaN" or text not in str(caught.value)


@pytest.mark.parametrize(("kind", "text", "options", "message"), MISFITS)
def test_misfit_as_null(tmp_path: Path, kind: str | PgType, text: str, options: dict[str, Any], message: str):
    """With misfits: nullify it becomes NULL, because somebody asked for it."""
    [(_, value)] = stored(tmp_path, kind, text, misfits="nullify", **options)
    assert value is None


def test_misfit_in_a_key_stops_always(tmp_path: Path):
    """A key is never made NULL."""
    version = table("public.k", {"at": "timestamp"}, key=["at"])
    changes = Changes()
    changes.insert(version, "294276-12-31 23:59:59.999999")
    sink = KIND.build(DuckDBConfig(path=tmp_path / "k.duckdb", misfits="nullify"))
    sink.open(SinkContext("p", tmp_path))
    with pytest.raises(TargetSchemaError, match="'at'"):
        sink.apply(changes.batch(start=None, end="one"))
    sink.close()


def test_remedy_helps(tmp_path: Path):
    """After the column was altered to VARCHAR, as the remedy says, the value is kept as text."""
    with pytest.raises(TargetSchemaError):
        stored(tmp_path, numeric(12, 2), "NaN")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS public")
        connection.execute("CREATE TABLE public.t (id INTEGER, value VARCHAR)")
    assert stored(tmp_path, numeric(12, 2), "NaN", "1.50") == [("VARCHAR", "NaN"), ("VARCHAR", "1.50")]


def test_keys_of_awkward_types(tmp_path: Path):
    """Rows are found by keys whose text differs in DuckDB: BC, bytea, bool, infinity."""
    kinds = {"day": "date", "raw": "bytea", "yes": "bool", "n": numeric(5, 2), "body": "text"}
    version = table("public.odd", kinds, key=["day", "raw", "yes", "n"])
    changes, later = Changes(), Changes()
    changes.insert(version, "0044-03-15 BC", "\\x00", "t", "1.10", "kept")
    changes.insert(version, "infinity", "\\x", "f", "0.00", "gone")
    later.update(
        version,
        "infinity",
        "\\x01",
        "f",
        "2.00",
        UNCHANGED,
        old=["0044-03-15 BC", "\\x00", "t", "1.10", None],
    )
    later.delete(version, "infinity", "\\x", "f", "0.00", None)
    sink = KIND.build(DuckDBConfig(path=tmp_path / "k.duckdb"))
    sink.open(SinkContext("p", tmp_path))
    sink.apply(changes.batch(start=None, end="one"))
    sink.apply(later.batch(start="one", end="two"))
    sink.close()
    with duckdb.connect(str(tmp_path / "k.duckdb")) as connection:
        assert connection.execute("SELECT COLUMNS(*)::VARCHAR FROM public.odd").fetchall() == [
            ("infinity", "\\x01", "false", "2.00", "kept")
        ]


def test_zero_and_minus_zero_without_key(tmp_path: Path):
    """In a table without key, deleting 0 leaves -0 alone, though they are equal as numbers."""
    version = table("public.f", {"x": "float8"}, identity="f")
    changes, later = Changes(), Changes()
    changes.insert(version, "-0")
    changes.insert(version, "0")
    changes.insert(version, "NaN")
    later.delete(version, "0")
    later.delete(version, "NaN")
    sink = KIND.build(DuckDBConfig(path=tmp_path / "f.duckdb"))
    sink.open(SinkContext("p", tmp_path))
    sink.apply(changes.batch(start=None, end="one"))
    sink.apply(later.batch(start="one", end="two"))
    sink.close()
    with duckdb.connect(str(tmp_path / "f.duckdb")) as connection:
        assert connection.execute("SELECT x::VARCHAR FROM public.f").fetchall() == [("-0.0",)]
