"""A table with a key and eight columns that are masked, and what the target must hold afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from bench.capture.checksum import Checksum
from bench.capture.scene import DataSet, portions
from bench.postgres.changes import INSERTING_TRANSACTIONS, Backlog
from pgsluice.modifiers.chain import Chain
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.pipeline.modify import transformers

if TYPE_CHECKING:
    import psycopg

    from bench.postgres.clusters import Clusters

TABLE: Final = "people"
SALT: Final = b"the salt of the benchmarks"

_COLUMNS: Final = (
    "(id int8 PRIMARY KEY, name text, mail text, phone text, born date, seen timestamptz, pay int4,"
    " score numeric(12, 2), note text)"
)
_INSERT: Final = """
    INSERT INTO people
    SELECT i, 'Name ' || md5(i::text), 'mail' || i || '@example.org', '+49' || lpad(i::text, 9, '0'),
           date '1970-01-01' + (i % 20000)::int, timestamptz '2024-01-01 00:00:00+00' + i * interval '1 s',
           i % 100000, (i % 1000000) / 100.0, md5((i + 1)::text)
    FROM generate_series(%s::int8, %s::int8) i"""
RULES: Final[dict[str, Any]] = {
    "name": {"name": "masking"},
    "mail": {"name": "email"},
    "phone": {"name": "truncate", "parameters": {"length": 6}},
    "born": {"name": "truncate", "parameters": {"part": "year"}},
    "seen": {"name": "truncate", "parameters": {"part": "day"}},
    "pay": {"name": "bucket", "parameters": {"size": 1000}},
    "score": {"name": "bucket", "parameters": {"size": 10}},
    "note": {"name": "hash"},
}


def chain() -> Chain:
    """The rules as a modifier."""
    tables = [{"table": TABLE, "column_transformers": RULES}]
    return Chain(transformers(Transformations.model_validate({"table_transformers": tables}), lambda: SALT))


def backlog(pair: Clusters) -> Backlog:
    """Rows into an empty table in ten transactions, behind a slot, and the target's empty table."""
    rows, marker, template = pair.options.rows, f"{TABLE}_done", f"{TABLE}_before"
    with pair.source.connect() as conn:
        _make_tables(conn, marker)
        conn.execute(sql.SQL("CREATE PUBLICATION people FOR TABLE people, {}").format(sql.Identifier(marker)))
        slot = pair.source.make_slot(conn, f"{TABLE}_master")
        for first, last in portions(rows, INSERTING_TRANSACTIONS):
            conn.execute(_INSERT, (first, last))
        conn.execute(sql.SQL("INSERT INTO {} VALUES (1)").format(sql.Identifier(marker)))
        data = DataSet(pair.source.url, TABLE, TABLE, slot, rows, checksum(conn, masked=False))
    pair.make_database(template)
    with pair.connect_target(template) as conn:
        _make_tables(conn, marker)
    return Backlog(TABLE, data, marker, template)


def _make_tables(conn: psycopg.Connection[Any], marker: str) -> None:
    conn.execute(f"CREATE TABLE people {_COLUMNS}")
    conn.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY)").format(sql.Identifier(marker)))


def checksum(conn: psycopg.Connection[Any], *, masked: bool) -> Checksum:
    """Of the rows as they are; or, by PostgreSQL itself, of what the rules have to make of them."""
    columns = _MASKED.format(mail=_hmac("lower(mail)"), note=_hmac("note")) if masked else _PLAIN
    row = conn.execute(_CHECKSUM.format(columns=columns).encode()).fetchone()
    assert row is not None
    return Checksum(int(row[0]), int(row[1]))


_PLAIN: Final = (
    "id, name, mail, phone, born, seen AT TIME ZONE 'UTC', pay, trunc(score, 2)::numeric(12, 2), note"
)
_MASKED: Final = """
    id, repeat('*', length(name)), left({mail}, 32) || '@example.com', left(phone, 6),
    date_trunc('year', born)::date, date_trunc('day', seen AT TIME ZONE 'UTC'), pay / 1000 * 1000,
    (floor(score / 10) * 10)::numeric(12, 2), {note}"""
_CHECKSUM: Final = """
    SELECT count(*), sum(('x' || substr(md5(concat_ws('|', {columns})), 1, 15))::bit(60)::int8) FROM people"""


def _hmac(text: str) -> str:
    block = SALT.ljust(64, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in block).hex() for pad in (0x36, 0x5C))
    digest = f"sha256('\\x{inner}'::bytea || convert_to({text}, 'UTF8'))"
    return f"encode(sha256('\\x{outer}'::bytea || {digest}), 'hex')"
