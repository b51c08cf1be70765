"""Values that a typed column can't hold: each choice, in both engines."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pgsluice.errors import DecodeError, TargetSchemaError, UntypedValueError
from pgsluice.schema.pgtypes import resolve
from pgsluice.schema.typed import SpecialValues, arrow_column, typed_arrow, typed_schema
from tests.schema.typed_rows import by_columns, by_spark, envelope, frame_of, same, version_of

pytestmark = pytest.mark.spark

BOOL, BYTEA, INT8, INT4, TEXT, FLOAT8, DATE, TIMESTAMP, TIMESTAMPTZ = (
    16,
    17,
    20,
    23,
    25,
    701,
    1082,
    1114,
    1184,
)
NUMERIC, TEXTS, DATES, NUMERICS = 1700, 1009, 1182, 1231
NUMERIC_12_2 = ((12 << 16) | 2) + 4

ODD = {
    "day": (DATE, ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "2024-01-01", None]),
    "local": (
        TIMESTAMP,
        ["infinity", "-infinity", "0044-03-15 12:00:00.5 BC", "10000-01-01 00:00:00", None, None],
    ),
    "moment": (
        TIMESTAMPTZ,
        ["infinity", "-infinity", "0044-03-15 12:00:00+00 BC", "10000-01-01 00:00:00+00", None, None],
    ),
    "days": (
        DATES,
        ["{infinity,2024-01-01}", "{-infinity,NULL}", "{{2024-01-01}}", "{2024-01-01}", "{}", None],
    ),
    "price": (NUMERIC, ["NaN", "1.50", None, None, None, None]),
    "tags": (TEXTS, ["{{a}}", "[2:2]={a}", "{a}", None, None, None]),
}


def odd_version(*names: str):
    """A table version with some of the odd columns."""
    types = [resolve(ODD[name][0], NUMERIC_12_2 if name == "price" else -1) for name in names]
    return version_of(types, list(names))


def odd_rows(*names: str) -> pa.Table:
    """Their rows."""
    return by_columns([ODD[name][1] for name in names])


def test_null_keeps_the_text(spark):
    """By default the column is NULL and the text stands in _untyped, which is NULL in all other rows."""
    version, rows = odd_version(*ODD), odd_rows(*ODD)
    typed = by_spark(spark, rows, version, SpecialValues())
    same(typed, typed_arrow(rows, version, SpecialValues()))
    marks = [dict(row) if row is not None else None for row in typed["_untyped"].to_pylist()]
    assert marks[0] == {name: values[0] for name, (_, values) in ODD.items()}
    assert marks[3] == {name: ODD[name][1][3] for name in ("day", "local", "moment")}
    assert marks[4:] == [None, None]
    assert typed["price"].to_pylist()[0] is None


def test_clamp_takes_the_nearest_and_still_marks(spark):
    """Clamped values are the first or last that the column can hold, and their text is kept."""
    names = ("day", "local", "moment", "days")
    version, rows = odd_version(*names), odd_rows(*names)
    choices = SpecialValues(dates="clamp", timestamps="clamp")
    typed = by_spark(spark, rows, version, choices)
    same(typed, typed_arrow(rows, version, choices))
    first, last = "0001-01-01", "9999-12-31"
    assert [str(v) for v in typed["day"].to_pylist()[:4]] == [last, first, first, last]
    assert [str(v) for v in typed["local"].to_pylist()[:2]] == [
        f"{last} 23:59:59.999999",
        f"{first} 00:00:00",
    ]
    assert str(typed["moment"].to_pylist()[0]) == f"{last} 23:59:59.999999+00:00"
    assert [str(v) for v in typed["days"].to_pylist()[0]] == [last, "2024-01-01"]
    assert dict(typed["_untyped"].to_pylist()[1]) == {
        name: ODD[name][1][1] for name in ("day", "local", "moment", "days")
    }


def test_string_makes_the_columns_strings(spark):
    """With ``string`` every value of such columns is PostgreSQL's text, and nothing is marked."""
    version, rows = odd_version(*ODD), odd_rows(*ODD)
    choices = SpecialValues("string", "string", "string", "string")
    typed = by_spark(spark, rows, version, choices)
    same(typed, typed_arrow(rows, version, choices))
    assert {name: typed[name].to_pylist() for name in ODD} == {
        name: values for name, (_, values) in ODD.items()
    }
    assert typed["_untyped"].null_count == len(typed)


def test_string_dates_in_arrays(spark):
    """Dates as strings make an array of dates an array of strings."""
    version, rows = odd_version("days"), odd_rows("days")
    typed = by_spark(spark, rows, version, SpecialValues(dates="string"))
    same(typed, typed_arrow(rows, version, SpecialValues(dates="string")))
    assert typed["days"].to_pylist() == [
        ["infinity", "2024-01-01"],
        ["-infinity", None],
        None,
        ["2024-01-01"],
        [],
        None,
    ]


@pytest.mark.parametrize("name", list(ODD))
def test_stop_names_table_column_and_position(spark, name):
    """With ``stop`` both engines raise an error with code, table, column and position, without the value."""
    version, rows = odd_version(name), odd_rows(name).slice(0, 1)
    choices = SpecialValues("stop", "stop", "stop", "stop")
    with pytest.raises(UntypedValueError) as by_arrow:
        typed_arrow(rows, version, choices)
    with pytest.raises(Exception, match="SLUICE-UNTYPED") as by_jvm:
        frame_of(spark, rows, version, choices).collect()
    for message in (str(by_arrow.value), str(by_jvm.value).split("\n")[0]):
        assert f"public.odd.{name}" in message
        assert "1/16B3748 change 1" in message
        assert ODD[name][1][0] not in message
    assert by_arrow.value.fields == {"table": "public.odd", "column": name, "lsn": "1/16B3748", "seq": 1}


MISREAD = [
    (BOOL, "true"), (INT4, "word"), (INT4, "2147483648"), (INT8, ""), (INT8, "1.5"), (FLOAT8, "1,5"),
    (DATE, "2023-02-30"), (TIMESTAMP, "2023-01-01 noon"), (TIMESTAMPTZ, "2023-01-32 00:00:00+00"),
    (NUMERIC, "12345678901.25"), (BYTEA, "\\x0"), (BYTEA, "\\x0g"), (TEXTS, '{"a}'), (TEXTS, "{a,}"),
    (TEXTS, "{a"), (NUMERICS, "{x.25}"),
]  # fmt: skip


@pytest.mark.parametrize(("oid", "text"), MISREAD)
def test_text_that_is_no_value_of_the_type_always_stops(spark, oid, text):
    """A misread row raises in both engines, whatever the choices."""
    version = version_of([resolve(oid, NUMERIC_12_2 if oid in (NUMERIC, NUMERICS) else -1)])
    rows = by_columns([[None, text]])
    with pytest.raises(UntypedValueError, match=r"public\.odd\.c0 .*(no value of its type|no array)"):
        typed_arrow(rows, version, SpecialValues())
    with pytest.raises(Exception, match=r"SLUICE-UNTYPED: public\.odd\.c0"):
        frame_of(spark, rows, version, SpecialValues()).collect()


def test_other_offsets_and_scales_are_marked(spark):
    """Text under other settings than the pinned ones is kept as text, not interpreted."""
    kinds = [resolve(TIMESTAMPTZ), resolve(BYTEA), resolve(NUMERIC, NUMERIC_12_2)]
    columns = [["2024-01-01 00:00:00+02", "2024-01-01 00:00:00"], ["\\000abc", "abc"], ["1.255", "1.2555"]]
    version, rows = version_of(kinds), by_columns(columns)
    typed = by_spark(spark, rows, version, SpecialValues())
    same(typed, typed_arrow(rows, version, SpecialValues()))
    assert [dict(row) for row in typed["_untyped"].to_pylist()] == [
        {f"c{i}": column[n] for i, column in enumerate(columns)} for n in range(2)
    ]


def test_bytes_that_are_no_utf8_do_not_crash(spark):
    """Rows of an SQL_ASCII database pass unchanged where they are text, else they are marked or stopped."""
    bad = pa.array([b"\xff\xfe{\xc3", None]).view(pa.string())
    for oid in (DATE, TIMESTAMP, TIMESTAMPTZ, BYTEA, TEXTS):
        assert arrow_column(bad, resolve(oid), SpecialValues()).null_count == 2
    for oid in (INT4, FLOAT8, BOOL):
        with pytest.raises(UntypedValueError):
            arrow_column(bad, resolve(oid), SpecialValues())
    version = version_of([resolve(TEXT), resolve(DATE), resolve(TEXTS)])
    rows = by_columns([["a"], ["b"], ["c"]])
    values = pa.ListArray.from_arrays([0, 3], pa.array([b"\xff", b"\xfe-", b"{\xc3}"]).view(pa.string()))
    rows = rows.set_column(
        rows.schema.get_field_index("values"), rows.schema.field("values"), values.cast(rows["values"].type)
    )
    arrow = typed_arrow(rows, version, SpecialValues())
    assert arrow["c0"].chunk(0).view(pa.binary()).to_pylist() == [b"\xff"]
    assert arrow["c2"].null_count == 1
    (row,) = (
        frame_of(spark, rows, version, SpecialValues())
        .selectExpr("hex(c0)", "hex(_untyped['c1'])", "c2", "hex(_untyped['c2'])")
        .collect()
    )
    assert tuple(row) == ("FF", "FE2D", None, "7BC37D")


def test_a_long_array_element_does_not_overflow(spark):
    """Hundreds of thousands of escapes in one element are taken apart without a deep stack."""
    text = '{"' + '\\"\\\\' * 200_000 + '",b}'
    version, rows = version_of([resolve(TEXTS)]), by_columns([[text]])
    typed = by_spark(spark, rows, version, SpecialValues())
    assert typed["c0"].to_pylist() == [['"\\' * 200_000, "b"]]
    same(typed, typed_arrow(rows, version, SpecialValues()))


def test_rows_say_what_happened(spark):
    """Position, old row, unchanged columns and the key of a deleted row come through in both engines."""
    version = version_of([resolve(INT4), resolve(TEXT), resolve(DATE)], ["id", "Body", "we`ird.name"])
    rows = envelope([
        {"op": "S", "values": ["1", "a", "2024-01-01"]},
        {"op": "U", "values": ["2", None, None], "old": ["1", None, None], "unchanged": [1, 2]},
        {"op": "D", "old": ["2", None, None], "unchanged": []},
        {"op": "I", "values": ["9", "other table", None], "relation": 8},
        {"op": "T"},
        {"op": "M", "relation": None, "prefix": "p", "content": "c"},
    ])  # fmt: skip
    typed = by_spark(spark, rows, version, SpecialValues())
    same(typed, typed_arrow(rows, version, SpecialValues()))
    assert typed["_op"].to_pylist() == ["S", "U", "D", "T"]
    assert typed["id"].to_pylist() == [1, 2, 2, None]
    assert typed["_seq"].to_pylist() == [1, 2, 3, 5]
    assert typed["_unchanged"].to_pylist() == [[], ["Body", "we`ird.name"], [], []]
    assert typed["_old"].to_pylist() == [None, [("id", "1")], [("id", "2")], None]


def test_the_old_row_is_whole_with_full_identity(spark):
    """With REPLICA IDENTITY FULL _old has every column, NULLs included."""
    version = version_of([resolve(INT4), resolve(TEXT)], ["a", "b"], identity="f")
    rows = envelope(
        [{"op": "U", "values": ["1", "x"], "old": ["1", None]}, {"op": "I", "values": ["2", None]}]
    )
    typed = by_spark(spark, rows, version, SpecialValues())
    same(typed, typed_arrow(rows, version, SpecialValues()))
    assert typed["_old"].to_pylist() == [[("a", "1"), ("b", None)], None]


def test_a_row_of_another_width_is_refused(spark):
    """A row that has not the version's number of values is never typed."""
    version, rows = version_of([resolve(INT4)]), envelope([{"values": ["1", "2"]}])
    with pytest.raises(DecodeError, match=r"public\.odd"):
        typed_arrow(rows, version, SpecialValues())
    with pytest.raises(Exception, match=r"SLUICE-DECODE: a row of public\.odd"):
        frame_of(spark, rows, version, SpecialValues()).collect()


def test_no_rows_and_no_columns(spark):
    """An empty frame and a table without columns are typed too."""
    version = version_of([])
    rows = envelope([{"values": []}])
    same(by_spark(spark, rows, version, SpecialValues()), typed_arrow(rows, version, SpecialValues()))
    version = version_of([resolve(DATE), resolve(TEXTS), resolve(BYTEA)])
    assert len(typed_arrow(rows.slice(0, 0), version, SpecialValues())) == 0


def test_a_session_in_another_time_zone_gives_the_same_moments(spark):
    """The typed values do not depend on Spark's session time zone."""
    version = version_of([resolve(TIMESTAMPTZ), resolve(TIMESTAMP), resolve(DATE)])
    rows = by_columns([["2024-03-31 01:30:00+00"], ["2024-03-31 02:30:00"], ["2024-03-31"]])
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    (row,) = (
        frame_of(session, rows, version, SpecialValues())
        .selectExpr("unix_micros(c0)", "c1 = timestamp_ntz'2024-03-31 02:30:00'", "cast(c2 as string)")
        .collect()
    )
    assert tuple(row) == (1711848600000000, True, "2024-03-31")


def test_a_column_with_a_name_of_ours_is_refused():
    """A table with a column like _op can't be typed, and the error says which."""
    version = version_of([resolve(INT4)], ["_Op"])
    with pytest.raises(TargetSchemaError, match="_Op"):
        typed_schema(version, SpecialValues())
