"""The events are those that wal2json itself makes of the same statements."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import Pipeline, PostgresSource, StdoutSink
from pgsluice.formats.wal2json import events
from pgsluice.testing.batches import UNCHANGED, Changes, table
from tests.fix_pg import create_database, drop_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgsluice.embedded import EmbeddedPostgres
    from pgsluice.formats.registry import EventFormat
    from tests.fix_pg import Database

pytestmark = pytest.mark.spark

_TABLES = (
    "CREATE TYPE mood AS ENUM ('glad')",
    "CREATE DOMAIN small AS int",
    """CREATE TABLE every (
        id int PRIMARY KEY, s smallint, b bigint, r real, d double precision, n numeric(10, 2), m numeric,
        yes boolean, note text, short varchar(10), fixed char(3), raw bytea, day date, at timestamp,
        moment timestamptz(3), j json, jb jsonb, u uuid, many int[], feels mood, few small, took interval,
        o oid, bits bit(3))""",
    'CREATE TABLE "Odd näme" (a int, "b""c" text)',
    'ALTER TABLE "Odd näme" REPLICA IDENTITY FULL',
    "CREATE TABLE pair (a int, b text, c text, PRIMARY KEY (b, a))",
)
_CHANGES = (
    """INSERT INTO every VALUES (1, -2, 9007199254740993, 1.5, 1e-300, 1.10, 123456789012345678901234567890.1,
        true, E'quote" back\\\\ line\\n tab\\t \\x01 é 😀 ][', 'v', 'c', '\\x00ff', '2020-01-01',
        '2020-01-01 10:00', '2020-01-01 10:00+02', '{"a": 1.0}', '{"a":1}',
        'f3e3cd8b-04d0-45ee-8b29-3bf4ede7c6ae', '{1,NULL}', 'glad', 3, '1 day', 7, '101')""",
    "INSERT INTO every (id, yes) VALUES (2, false)",
    "UPDATE every SET s = 3 WHERE id = 1",
    "UPDATE every SET id = 10 WHERE id = 1",
    "DELETE FROM every WHERE id = 2",
    """INSERT INTO "Odd näme" VALUES (1, NULL), (2, '')""",
    """UPDATE "Odd näme" SET "b""c" = 'x' WHERE a = 1""",
    'DELETE FROM "Odd näme"',
    "INSERT INTO pair VALUES (1, 'one', 'x')",
    "UPDATE pair SET b = 'two'",
    "SELECT pg_logical_emit_message(true, 'pre\"fix', 'con\"tent')",
    "TRUNCATE every, pair",
)
_PLUGIN = """
    SELECT data FROM pg_logical_slot_peek_changes(
        %s, NULL, NULL, 'format-version', %s, 'include-xids', '1', 'include-timestamp', '1',
        'include-lsn', '1', 'filter-tables', 'pgsluice.*', 'include-transaction', '0')
"""


@pytest.fixture
def database15(pg15: EmbeddedPostgres) -> Iterator[Database]:
    """A fresh database on the server that has the plugin."""
    fresh = create_database(pg15)
    yield fresh
    drop_database(fresh)


def by_the_plugin(database: Database, version: int) -> list[dict[str, Any]]:
    """What wal2json makes of the changes; its types are under their schemas, as ours are."""
    with database.connect() as conn:
        conn.execute("SET search_path = ''")
        rows = conn.execute(_PLUGIN, (f"{database.name}_w", str(version))).fetchall()
    return [json.loads(data, parse_float=Decimal) for (data,) in rows]


def by_us(database: Database, place: Path, form: EventFormat) -> list[dict[str, Any]]:
    """What a run prints of the same changes."""
    output = io.BytesIO()
    source = PostgresSource(database.url)
    sink = StdoutSink(output, format=form)
    Pipeline(source, sink, name=database.name, state_dir=place, mode="replication").run(once=True)
    return [json.loads(line, parse_float=Decimal) for line in output.getvalue().splitlines()]


@pytest.mark.parametrize("version", [1, 2])
def test_as_the_plugin(spark, database15: Database, tmp_path: Path, version: int) -> None:
    """Every field of every change is as the plugin has it, in both of its formats."""
    database15.run(*_TABLES)
    PostgresSource(database15.url, init=True).prepare(database15.name)
    database15.run(f"SELECT pg_create_logical_replication_slot('{database15.name}_w', 'wal2json')", *_CHANGES)
    wanted = by_the_plugin(database15, version)
    found = by_us(database15, tmp_path, "wal2json" if version == 2 else "wal2json_v1")
    for event in found:
        assert event.pop("seq") > 0
    if version == 2:
        commits = [event.pop("lsn") for event in found]
        assert commits == sorted(commits), "the plugin has the position of each row, we that of the commit"
        assert all(event.pop("lsn") for event in wanted)
    else:
        wanted = [{**rest, "change": [each]} for rest in wanted for each in rest.pop("change")]
        truncated = [event for event in found if event["change"][0]["kind"] == "truncate"]
        assert len(truncated) == 2, "the plugin's format 1 has no TRUNCATE"
        found = [event for event in found if event not in truncated]
    assert found == wanted
    print(f"compared {len(found)} events")
    assert len(found) >= 13


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_lost(spark, version: int) -> None:
    """What the plugin turns to null is kept as text; columns that were not sent are named."""
    items = table("public.items", {"id": "int8", "n": "numeric", "f": "float8", "big": "text"}, key=["id"])
    changes = Changes()
    changes.update(items, "1", "NaN", "-Infinity", UNCHANGED)
    changes.snapshot(items, "1", "1.00", "1", "x")
    step = changes.step()
    rows = events(step.frame(), step.tables, version=version).collect()
    update, copied = (json.loads(row.event, parse_float=Decimal) for row in rows)
    if version == 1:
        assert copied["nextlsn"] == "0/0"
        change = update["change"][0]
        assert (change["columnnames"], change["columnvalues"]) == (["id", "n", "f"], [1, "NaN", "-Infinity"])
        assert change["unchanged"] == ["big"]
    else:
        assert (copied["action"], copied["lsn"]) == ("I", "0/0")
        assert [column["value"] for column in update["columns"]] == [1, "NaN", "-Infinity"]
        assert update["unchanged"] == ["big"]
