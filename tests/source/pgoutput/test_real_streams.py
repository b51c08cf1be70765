"""Both decoders on what real servers send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.changelog.position import Lsn
from pgsluice.source.pgoutput import messages as m
from pgsluice.source.pgoutput.plain import frames
from pgsluice.testing.pgoutput import frame_bytes, relations_at

from .comparing import cuts, fast, slow

if TYPE_CHECKING:
    from tests.fix_pg import Database

pytestmark = pytest.mark.both_versions

_SLOT = "SELECT pg_create_logical_replication_slot(current_database()::text || '_slot', 'pgoutput')"
_CHANGES = """
    SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes(
        current_database()::text || '_slot', NULL, NULL,
        'proto_version', '1', 'publication_names', 'p', 'messages', 'true')
"""


def stream(database: Database, setup: list[str], work: list[str], options: str = "") -> bytes:
    """The log of the work, done after the set-up; all that both decoders must agree on is checked."""
    database.run(*setup, f"CREATE PUBLICATION p FOR ALL TABLES {options}", _SLOT, *work)
    changes = database.rows(_CHANGES)
    log = b"".join(frame_bytes(bytes(data), Lsn.parse(lsn)) for lsn, data in changes)
    check_both(log)
    return log


def check_both(log: bytes) -> None:
    """Both decoders agree on the whole log and on its parts."""
    relations = relations_at(log)
    whole = slow(log, relations)
    assert fast(log, relations) == whole
    places = cuts(log)
    for cut in places[:: max(1, len(places) // 40)]:
        assert fast(log, relations, end=cut) + fast(log, relations, start=cut) == whole


def rows(log: bytes, table: str | None = None) -> list[dict[str, Any]]:
    """The rows that the compiled decoder gives for a table."""
    found = fast(log, relations_at(log))
    return [row for row in found if table is None or row["table"] == table.encode()]


def shape(log: bytes, table: str | None = None) -> list[tuple[Any, ...]]:
    """Operation, values, old values and unchanged columns of each row."""
    return [(row["op"], row["values"], row["old"], row["unchanged"]) for row in rows(log, table)]


def test_default_identity_sends_the_old_key_only_when_it_changes(database: Database) -> None:
    """INSERT, UPDATE with and without a new key, DELETE; NULL and the empty string stay apart."""
    log = stream(
        database,
        ["CREATE TABLE t (id int PRIMARY KEY, a text, b text)"],
        [
            "INSERT INTO t VALUES (1, NULL, '')",
            "UPDATE t SET a = 'x'",
            "UPDATE t SET id = 2",
            "DELETE FROM t",
        ],
    )
    assert shape(log) == [
        (b"I", [b"1", None, b""], None, None),
        (b"U", [b"1", b"x", b""], None, None),
        (b"U", [b"2", b"x", b""], [b"1", None, None], None),
        (b"D", None, [b"2", None, None], None),
    ]


def test_full_identity_sends_the_whole_old_row(database: Database) -> None:
    """UPDATE and DELETE carry every old value, large ones included."""
    big = "x" * 20_000
    log = stream(
        database,
        [
            "CREATE TABLE t (id int, a text, big text)",
            "ALTER TABLE t REPLICA IDENTITY FULL",
            "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        ],
        [f"INSERT INTO t VALUES (1, NULL, '{big}')", "UPDATE t SET a = 'y'", "DELETE FROM t"],
    )
    inserted, updated, deleted = shape(log)
    old = [b"1", None, big.encode()]
    assert inserted == (b"I", old, None, None)
    assert updated == (b"U", [b"1", b"y", None], old, [2])
    assert deleted == (b"D", None, [b"1", b"y", big.encode()], None)


def test_index_identity_sends_the_columns_of_the_index(database: Database) -> None:
    """The old tuple has the index's columns, and none when only the primary key changes."""
    log = stream(
        database,
        [
            "CREATE TABLE t (id int PRIMARY KEY, email text NOT NULL)",
            "CREATE UNIQUE INDEX by_email ON t (email)",
            "ALTER TABLE t REPLICA IDENTITY USING INDEX by_email",
        ],
        ["INSERT INTO t VALUES (1, 'a@b')", "UPDATE t SET id = 2", "UPDATE t SET email = 'c@d'"],
    )
    assert shape(log)[1:] == [
        (b"U", [b"2", b"a@b"], None, None),
        (b"U", [b"2", b"c@d"], [None, b"a@b"], None),
    ]


def test_no_identity_sends_inserts_and_truncates(database: Database) -> None:
    """A table with REPLICA IDENTITY NOTHING has inserts and truncates in the stream."""
    log = stream(
        database,
        ["CREATE TABLE t (a text)", "ALTER TABLE t REPLICA IDENTITY NOTHING"],
        ["INSERT INTO t VALUES ('x')", "TRUNCATE t"],
    )
    assert [row["op"] for row in rows(log)] == [b"I", b"T"]


def test_unchanged_toast_is_marked_and_never_a_null(database: Database) -> None:
    """An untouched large value is named in ``unchanged``; a real NULL beside it is not."""
    log = stream(
        database,
        [
            "CREATE TABLE t (id int PRIMARY KEY, n int, big text, empty text)",
            "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        ],
        [
            "INSERT INTO t VALUES (1, 1, repeat('x', 50000), NULL)",
            "UPDATE t SET n = 2",
            "UPDATE t SET id = 2",
        ],
    )
    assert shape(log)[1:] == [
        (b"U", [b"1", b"2", None, None], None, [2]),
        (b"U", [b"2", b"2", None, None], [b"1", None, None, None], [2]),
    ]


def test_truncate_of_several_tables_shares_a_position(database: Database) -> None:
    """One row per table in order, one ``seq``, the options as text."""
    log = stream(
        database,
        ["CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY REFERENCES a)"],
        [
            "TRUNCATE a, b",
            "TRUNCATE a CASCADE",
            "TRUNCATE b RESTART IDENTITY",
            "TRUNCATE a, b RESTART IDENTITY CASCADE",
        ],
    )
    found = [(row["seq"], row["table"], row["content"]) for row in rows(log)]
    assert found == [
        (1, b"a", b""),
        (1, b"b", b""),
        (1, b"a", b"cascade"),
        (1, b"b", b"cascade"),
        (1, b"b", b"restart_identity"),
        (1, b"a", b"cascade,restart_identity"),
        (1, b"b", b"cascade,restart_identity"),
    ]


def test_logical_messages_in_and_out_of_transactions(database: Database) -> None:
    """A transactional message has a ``seq``; another is a unit of its own; ours are left out."""
    log = stream(
        database,
        ["CREATE TABLE t (id int PRIMARY KEY)"],
        [
            "SELECT pg_logical_emit_message(false, 'out', 'alone')",
            """DO $$ BEGIN
                INSERT INTO t VALUES (1);
                PERFORM pg_logical_emit_message(true, 'pgsluice.heartbeat', '1');
                PERFORM pg_logical_emit_message(true, 'in', 'grüße');
                PERFORM pg_logical_emit_message(true, 'bytes', '\\xff00'::bytea);
                PERFORM pg_logical_emit_message(true, 'like hex', '\\x41');
                INSERT INTO t VALUES (2);
            END $$""",
        ],
    )
    found = rows(log)
    assert [(row["op"], row["seq"], row["prefix"], row["content"]) for row in found] == [
        (b"M", 0, b"out", b"alone"),
        (b"I", 1, None, None),
        (b"M", 3, b"in", "grüße".encode()),
        (b"M", 4, b"bytes", b"\\xff00"),
        (b"M", 5, b"like hex", b"\\x5c783431"),
        (b"I", 6, None, None),
    ]
    alone = found[0]
    assert alone["commit_lsn"] + 1 == alone["end_lsn"] > 1
    assert (alone["xid"], alone["commit_ts"], alone["relation"]) == (None, None, None)


def test_types_of_all_kinds_come_as_their_text(database: Database) -> None:
    """Built-in types, arrays and types of the user's own; the latter are named by Type messages."""
    log = stream(
        database,
        [
            "CREATE TYPE mood AS ENUM ('glad', 'sad')",
            "CREATE DOMAIN small AS int CHECK (value < 100)",
            "CREATE TYPE pair AS (a int, b text)",
            "CREATE TYPE span AS RANGE (subtype = date)",
            """CREATE TABLE t (id int PRIMARY KEY, m mood, ms mood[], d small, p pair, s span, n numeric,
                f float8, ts timestamptz, iv interval, j jsonb, b bytea, ip inet, pt point, bits bit(3),
                tsv tsvector, u uuid, mon money, r int4range, mr int4multirange, o oid, c "char")""",
        ],
        [
            """INSERT INTO t VALUES (1, 'glad', '{sad,NULL}', 7, '(1,"x,y")', '[2020-01-01,2020-02-01)',
                'NaN', '-infinity', 'infinity', '1 mon -2 days', '{"a": [1, null]}', '\\x00ff', '::1',
                '(1,2)', '101', 'a:1 b', 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6', '12.5',
                '[1,5)', '{[1,2)}', 1, 'c')""",
            "INSERT INTO t (id, n) VALUES (2, 12345678901234567890.123456789)",
        ],
    )
    first, second = rows(log)
    assert first["values"][1:6] == [b"glad", b"{sad,NULL}", b"7", b'(1,"x,y")', b"[2020-01-01,2020-02-01)"]
    assert first["values"][6:9] == [b"NaN", b"-Infinity", b"infinity"]
    assert second["values"][6] == b"12345678901234567890.123456789"
    named = {each.message.name for each in frames(log) if isinstance(each.message, m.Type)}
    assert {"mood", "_mood", "pair", "span"} <= named


def test_odd_names_and_odd_tables(database: Database) -> None:
    """Quoted and non-ASCII names, a table without columns, generated and dropped columns."""
    log = stream(
        database,
        [
            'CREATE SCHEMA "Ä schema"',
            'CREATE TABLE "Ä schema"."Größe ""x""" ("Straße" int PRIMARY KEY, "日本" text)',
            "CREATE TABLE nothing ()",
            """CREATE TABLE g (id int PRIMARY KEY, gone int, z text,
                twice int GENERATED ALWAYS AS (id * 2) STORED)""",
            "ALTER TABLE g DROP COLUMN gone",
        ],
        [
            """INSERT INTO "Ä schema"."Größe ""x\""" VALUES (1, '値')""",
            "INSERT INTO nothing DEFAULT VALUES",
            "INSERT INTO g (id, z) VALUES (1, 'z')",
        ],
    )
    odd, nothing, generated = rows(log)
    assert (odd["schema"].decode(), odd["table"].decode()) == ("Ä schema", 'Größe "x"')
    assert odd["values"] == [b"1", "値".encode()]
    assert nothing["values"] == []
    assert generated["values"] == [b"1", b"z"]


def test_published_generated_columns(database: Database) -> None:
    """From 18 on a publication may send stored generated columns: they are columns like others."""
    if database.rows("SELECT current_setting('server_version_num')::int < 180000") == [(True,)]:
        pytest.skip("generated columns are published from PostgreSQL 18 on")
    log = stream(
        database,
        ["CREATE TABLE g (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, z text)"],
        ["INSERT INTO g (id, z) VALUES (1, 'z')"],
        options="WITH (publish_generated_columns = stored)",
    )
    assert shape(log) == [(b"I", [b"1", b"2", b"z"], None, None)]


def test_the_widest_table(database: Database) -> None:
    """1600 columns are read, and a change of one of them."""
    columns = ", ".join(f"c{i} int" for i in range(1600))
    log = stream(
        database,
        [f"CREATE TABLE t ({columns})", "ALTER TABLE t REPLICA IDENTITY FULL"],
        ["INSERT INTO t (c0, c1599) VALUES (0, 1599)", "UPDATE t SET c800 = 800"],
    )
    inserted, updated = rows(log)
    assert [i for i, value in enumerate(inserted["values"]) if value is not None] == [0, 1599]
    assert updated["values"][800] == b"800"
    assert updated["old"] == inserted["values"]


def test_huge_values(database: Database) -> None:
    """Values of several MiB come whole."""
    log = stream(
        database,
        ["CREATE TABLE t (id int PRIMARY KEY, a text, b bytea)"],
        [
            """INSERT INTO t SELECT 1, string_agg(md5(i::text), ''), convert_to(repeat('x', 3000000), 'UTF8')
                FROM generate_series(1, 200000) i"""
        ],
    )
    (row,) = rows(log)
    assert [len(value) for value in row["values"]] == [1, 6_400_000, 2 + 6_000_000]


def test_subtransactions_and_rollbacks(database: Database) -> None:
    """What was rolled back is not in the stream, and ``seq`` counts what is."""
    log = stream(
        database,
        ["CREATE TABLE t (id int PRIMARY KEY)"],
        [
            """DO $$ BEGIN
                INSERT INTO t VALUES (1);
                BEGIN
                    INSERT INTO t VALUES (2);
                    RAISE 'no';
                EXCEPTION WHEN OTHERS THEN INSERT INTO t VALUES (3);
                END;
                BEGIN INSERT INTO t VALUES (4); EXCEPTION WHEN OTHERS THEN NULL; END;
            END $$"""
        ],
    )
    assert [(row["seq"], row["values"]) for row in rows(log)] == [(1, [b"1"]), (2, [b"3"]), (3, [b"4"])]
    assert len({(row["commit_lsn"], row["end_lsn"], row["xid"], row["commit_ts"]) for row in rows(log)}) == 1


def test_partitions_come_as_leaves(database: Database) -> None:
    """Rows carry the leaf's name; a row that moves is a delete and an insert."""
    log = stream(
        database,
        [
            "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
            "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
            "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        ],
        ["INSERT INTO t VALUES (1, 'a'), (11, 'b')", "UPDATE t SET id = 12 WHERE id = 1"],
    )
    found = [(row["op"], row["table"]) for row in rows(log)]
    assert found == [(b"I", b"t1"), (b"I", b"t2"), (b"D", b"t1"), (b"I", b"t2")]


def test_a_table_that_changes_in_mid_transaction(database: Database) -> None:
    """Each row is read with the Relation before it, not with the last one of the log."""
    log = stream(
        database,
        ["CREATE TABLE t (id int PRIMARY KEY)"],
        [
            """DO $$ BEGIN
                INSERT INTO t VALUES (1);
                ALTER TABLE t ADD v text;
                INSERT INTO t VALUES (2, 'v');
                ALTER TABLE t RENAME TO u;
                INSERT INTO u VALUES (3, 'w');
            END $$"""
        ],
    )
    found = [(row["table"], row["values"], row["seq"]) for row in rows(log)]
    assert found == [(b"t", [b"1"], 1), (b"t", [b"2", b"v"], 2), (b"u", [b"3", b"w"], 3)]
    assert len({row["relation"] for row in rows(log)}) == 3


def test_applying_the_rows_gives_the_table(database: Database) -> None:
    """The decoded changes of a busy table, applied in order, give what the table holds."""
    log = stream(
        database,
        [
            "CREATE TABLE t (id int PRIMARY KEY, n int, big text)",
            "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        ],
        [
            "INSERT INTO t SELECT i, i, repeat(md5(i::text), i % 3 * 100) FROM generate_series(1, 300) i",
            "UPDATE t SET n = n + 1 WHERE id % 3 = 0",
            "UPDATE t SET id = id + 1000, big = NULL WHERE id % 5 = 0",
            "UPDATE t SET id = id + 2000 WHERE id % 7 = 0",
            "DELETE FROM t WHERE id % 11 = 0",
            "INSERT INTO t SELECT i, NULL, '' FROM generate_series(5000, 5010) i",
        ],
    )
    held: dict[bytes, list[Any]] = {}
    for row in rows(log):
        values, key = row["values"], (row["old"] or row["values"])[0]
        before = held.pop(key, None)
        if values is not None:
            merged = [before[i] if i in (row["unchanged"] or ()) else v for i, v in enumerate(values)]
            held[values[0]] = merged
    expected = database.rows("SELECT id::text, n::text, big FROM t")
    assert len(expected) > 250
    decoded = [tuple(v if v is None else v.decode() for v in values) for values in held.values()]
    assert sorted(decoded) == sorted(expected)


def test_lsns_and_times_are_those_of_the_commit(database: Database) -> None:
    """The commit's time is the server's, positions rise, and the end lies behind the commit."""
    log = stream(
        database,
        ["CREATE TABLE t (id int PRIMARY KEY, x bigint)"],
        ["INSERT INTO t SELECT 1, pg_current_xact_id()::text::bigint", "INSERT INTO t VALUES (2, 0)"],
    )
    ((now,),) = database.rows("SELECT (extract(epoch FROM now()) * 1000000)::bigint")
    first, second = rows(log)
    assert 0 < now - first["commit_ts"] < 60_000_000
    assert first["commit_lsn"] < first["end_lsn"] <= second["commit_lsn"]
    assert str(first["xid"]).encode() == first["values"][1]
