"""The events are those of pgstream, and every one is JSON."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pgsluice.formats.pgstream import events
from pgsluice.schema.table import PgType, TableVersion
from pgsluice.testing.batches import UNCHANGED, Changes, table

pytestmark = pytest.mark.spark

PRICE = PgType(1700, "numeric", typmod=(12 << 16 | 2) + 4)
ITEMS = table("public.items", {"id": "int8", "name": "text", "price": PRICE}, key=["id"])


def made(changes: Changes) -> list[dict[str, Any]]:
    """The events of some changes, with numbers as they are written."""
    step = changes.step()
    rows = events(step.frame(), step.tables).collect()
    return [json.loads(row.event, parse_float=Decimal) for row in rows]


def values_of(changes: Changes) -> list[Any]:
    """The values of the one event of some changes."""
    return [column["value"] for column in made(changes)[0]["columns"]]


def test_insert(spark):
    """An INSERT has every field of pgstream's event, in its order, and the number in its transaction."""
    changes = Changes()
    changes.insert(ITEMS, "1", "alice", "12.50")
    [event] = made(changes)
    assert event == {
        "action": "I",
        "timestamp": "2024-05-01 12:00:01.123456+00",
        "lsn": "0/100",
        "seq": 1,
        "schema": "public",
        "table": "items",
        "columns": [
            {"id": "", "name": "id", "type": "bigint", "value": 1},
            {"id": "", "name": "name", "type": "text", "value": "alice"},
            {"id": "", "name": "price", "type": "numeric(12,2)", "value": Decimal("12.50")},
        ],
        "identity": None,
        "metadata": {"schema_id": None, "table_pgstream_id": "", "id_col_pgstream_id": None},
    }
    assert list(event)[:3] == ["action", "timestamp", "lsn"]


def test_identity(spark):
    """UPDATE and DELETE name the row they mean: by the old key, or by the new one where it did not change."""
    changes = Changes()
    changes.update(ITEMS, "1", "x", None)
    changes.update(ITEMS, "2", "x", None, old=["1", None, None])
    changes.delete(ITEMS, "2", None, None)
    found = [[(cell["name"], cell["value"]) for cell in event["identity"]] for event in made(changes)]
    assert found == [[("id", 1)], [("id", 1)], [("id", 2)]]
    assert made(changes)[2]["columns"] is None


def test_full_identity(spark):
    """Under FULL the identity is the whole old row, NULLs included."""
    full = table("public.items", {"id": "int8", "name": "text"}, identity="f", primary_key=["id"])
    changes = Changes()
    changes.delete(full, "1", None)
    identity = made(changes)[0]["identity"]
    assert [(cell["name"], cell["value"]) for cell in identity] == [
        ("id", 1),
        ("name", None),
    ]


def test_unchanged(spark):
    """Columns that were not sent are left out and named; without any the field is not there."""
    changes = Changes()
    changes.update(ITEMS, "1", UNCHANGED, "1.00")
    changes.update(ITEMS, "1", None, "1.00")
    first, second = made(changes)
    assert [column["name"] for column in first["columns"]] == ["id", "price"]
    assert first["unchanged"] == ["name"]
    assert "unchanged" not in second


def test_message_truncate_and_copied_row(spark):
    """A message has prefix and content, a TRUNCATE only its table; a copied row is an INSERT at 0/0."""
    changes = Changes()
    changes.message('pre"fix', "line\nline")
    changes.truncate(ITEMS)
    changes.snapshot(ITEMS, "1", None, None)
    message, truncate, copied = made(changes)
    assert (message["prefix"], message["content"], message["table"]) == ('pre"fix', "line\nline", "")
    assert (truncate["table"], truncate["columns"], truncate["identity"]) == ("items", None, None)
    assert "prefix" not in truncate
    assert (copied["action"], copied["lsn"]) == ("I", "0/0")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int8", "9223372036854775807", 9223372036854775807),
        ("int2", "-1", -1),
        ("numeric", "123456789012345678901234567890.10", Decimal("123456789012345678901234567890.10")),
        ("numeric", "NaN", "NaN"),
        ("numeric", "-Infinity", "-Infinity"),
        ("float8", "1e-300", Decimal("1e-300")),
        ("float8", "Infinity", "Infinity"),
        ("float4", "-0", 0),
        ("bool", "t", True),
        ("bool", "f", False),
        ("bytea", "\\xdeadbeef", "\\xdeadbeef"),
        ("json", '{"a": [1.0, null]}', '{"a": [1.0, null]}'),
        ("jsonb", "null", "null"),
        ("date", "0044-03-15 BC", "0044-03-15 BC"),
        ("text", "", ""),
        ("text", "[brackets]", "[brackets]"),
        ("text", ']"[', ']"['),
        ("text", 'a"b\\c/d\b\f\n\r\t\u0001\u007f\u2028 é 😀', 'a"b\\c/d\b\f\n\r\t\u0001\u007f\u2028 é 😀'),
        ("int4[]", "{1,NULL}", "{1,NULL}"),
        ("text", None, None),
        ("int4", None, None),
        ("bool", None, None),
    ],
)
def test_values(spark, kind: str, text: str | None, value: Any):
    """Each type has its form, and no value changes on the way."""
    changes = Changes()
    changes.insert(table("s.t", {"c": kind}), text)
    [found] = values_of(changes)
    assert (found, type(found)) == (value, type(value))


def test_domain_takes_the_form_of_its_base(spark):
    """A domain over a number is written as a number, under the domain's own name."""
    amount = PgType(5, "amount", "shop", kind="domain", base=PRICE)
    changes = Changes()
    changes.insert(table("s.t", {"c": amount}), "1.50")
    assert made(changes)[0]["columns"] == [
        {"id": "", "name": "c", "type": "shop.amount", "value": Decimal("1.50")}
    ]


def test_awkward_names(spark):
    """Names with quotes, backslashes and other scripts are JSON too."""
    odd: TableVersion = table(('sch"ema', "ta\\ble"), {"cö'l\"": "text"}, key=["cö'l\""])
    changes = Changes()
    changes.update(odd, "x")
    [event] = made(changes)
    assert (event["schema"], event["table"]) == ('sch"ema', "ta\\ble")
    assert (event["columns"][0]["name"], event["identity"][0]["name"]) == ("cö'l\"", "cö'l\"")


def test_time_zone_of_the_session(spark):
    """The timestamp is UTC whatever the session's zone, also in the hour that comes twice."""
    changes = Changes()
    changes.message("a", "b")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
        step = changes.step()
        twice = step.frame().selectExpr(
            "* except (commit_ts)", "timestamp_micros(1730624400000001) AS commit_ts"
        )
        [row] = events(twice, step.tables).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert json.loads(row.event)["timestamp"] == "2024-11-03 09:00:00.000001+00"


def test_a_small_frame_needs_no_job(spark):
    """Only projections: the events of a local relation are made without any Spark job."""
    changes = Changes()
    changes.insert(ITEMS, "1", 'needs "escapes"', "1.00")
    step = changes.step()
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    events(step.frame(), step.tables).collect()
    assert set(tracker.getJobIdsForGroup(None)) == before
