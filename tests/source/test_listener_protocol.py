"""What the listener asks the server for: protocol 1, and values in one fixed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.source.listening import listening, options, slot_of, wait_until, wal_end
from tests.source.reading import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.mark.both_versions
def test_only_protocol_one_is_asked_for(prepared: Database, tmp_path: Path) -> None:
    """The log holds protocol 1: a large open transaction waits on the server's disk and is not streamed."""
    prepared.run(f"ALTER DATABASE {prepared.name} SET logical_decoding_work_mem = '64kB'")
    large = (
        "SELECT spill_txns, stream_txns FROM pg_stat_replication_slots"
        f" WHERE slot_name = '{slot_of(prepared)}'"
    )
    with listening(options(prepared, tmp_path)) as live, psycopg.connect(prepared.url) as writer:
        writer.execute("INSERT INTO t SELECT g, repeat('v', 100) FROM generate_series(1, 20000) g")
        prepared.run("INSERT INTO t VALUES (-1, 'meanwhile')")  # commits: the server has decoded up to here
        wait_until(lambda: live.error or prepared.rows(large)[0] != (0, 0))
        assert prepared.rows(large) == [(1, 0)]
        writer.rollback()
        prepared.run("INSERT INTO t VALUES (1, 'after')")
        reader = live.wait_for(wal_end(prepared))
    assert [row["values"] for row in rows_of(reader)] == [["-1", "meanwhile"], ["1", "after"]]


HOSTILE = {
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Tokyo",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "search_path": "public",
    "quote_all_identifiers": "on",
}


@pytest.mark.both_versions
def test_values_have_the_same_text_in_a_database_with_other_settings(
    prepared: Database, tmp_path: Path
) -> None:
    """What the database sets for its sessions does not change how values of the stream are written."""
    prepared.run(
        *(f"ALTER DATABASE {prepared.name} SET {name} = '{value}'" for name, value in HOSTILE.items())
    )
    prepared.run(
        "CREATE TABLE odd (at timestamptz PRIMARY KEY, d date, i interval, b bytea, f float8, r regclass)",
        "ALTER PUBLICATION p ADD TABLE odd",
    )
    with listening(options(prepared, tmp_path)) as live:
        prepared.run(
            "INSERT INTO odd VALUES ('2024-02-03 04:05:06+00', '2024-02-03'::date, '1 day 2 hours',"
            " '\\x00ff', 0.1::float8 + 0.2::float8, 'public.t')"
        )
        reader = live.wait_for(wal_end(prepared))
    (row,) = rows_of(reader)
    assert row["values"] == [
        "2024-02-03 04:05:06+00",
        "2024-02-03",
        "1 day 02:00:00",
        "\\x00ff",
        "0.30000000000000004",
        "public.t",
    ]
