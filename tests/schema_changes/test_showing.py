"""``schema log``, ``show`` and ``diff``: what the schema was, what became of it, and how targets differ."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.source.install import InitOptions, init

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

BEFORE = (
    """CREATE TABLE orders (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        total numeric(10,2) NOT NULL,
        twice numeric GENERATED ALWAYS AS (total * 2) STORED,
        tax numeric(4,2) NOT NULL,
        CONSTRAINT positive CHECK (total > 0))""",
    "COMMENT ON TABLE orders IS 'what was sold'",
    "CREATE INDEX by_total ON orders (total)",
    "CREATE TABLE parted (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
    "CREATE SCHEMA other",
    "CREATE TYPE other.mood AS ENUM ('sad', 'glad')",
)
CHANGES = (
    "ALTER TABLE orders ADD note text COLLATE \"C\" DEFAULT 'none'",
    "BEGIN; ALTER TABLE orders RENAME total TO amount; ALTER TABLE orders RENAME TO sales; COMMIT",
    "ALTER TYPE other.mood ADD VALUE 'fine'",
    "ALTER TABLE sales DROP note, ALTER tax TYPE numeric(6,2), ALTER tax DROP NOT NULL",
    "ALTER TABLE sales REPLICA IDENTITY FULL",
    "CREATE TABLE other.late (id int PRIMARY KEY)",
    "DROP TABLE other.late",
)


@dataclass(frozen=True, slots=True)
class Commands:
    """The command line, with one configuration."""

    config: Path
    source: Database
    target: Database

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        command = [sys.executable, "-m", "pgsluice.cli.main", *arguments, "-c", str(self.config)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    def lines(self, *arguments: str, code: int = 0) -> list[str]:
        """What it printed, without needless space."""
        done = self.run("schema", *arguments)
        assert done.returncode == code, done.stderr
        return [" ".join(line.split()) for line in done.stdout.splitlines()]

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What it printed as JSON."""
        done = self.run("schema", *arguments, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def error(self, *arguments: str) -> str:
        """What it refused with, which is one line."""
        done = self.run("schema", *arguments)
        assert done.returncode not in (0, 1)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.stderr

    def catch_up(self) -> None:
        """Bring everything to the target."""
        done = self.run("run", "--once")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def commands(database: Database, target_database: Database, tmp_path: Path) -> Commands:
    """A source, whose tables are copied to a target that makes changes of the schema too."""
    return make(database, target_database, tmp_path, "schema_changes: apply")


def make(database: Database, target: Database, place: Path, options: str, more: str = "") -> Commands:
    """The same, with options for the target."""
    database.run(*BEFORE)
    config = place / "config.yaml"
    config.write_text(
        f"state_dir: {place}/state\nsource: {{postgres: {{url: '{database.url}'}}}}\n"
        f"targets:\n- postgres: {{url: '{target.url}', {options}}}\n{more}"
    )
    commands = Commands(config, database, target)
    init(database.url)
    commands.catch_up()
    return commands


def test_over_time(commands: Commands) -> None:
    """A table at each position, and what became of it in between."""
    commands.source.run(*CHANGES)
    unread = commands.json("log")
    assert {(each["position"], each["acknowledged"]) for each in unread} == {(None, False)}
    commands.catch_up()
    commands.source.run("ALTER TABLE sales ADD unread int")
    log = commands.json("log")
    by_tag = [(each["command"], each["versions"], each["acknowledged"]) for each in log]
    assert by_tag[:4] == [
        ("ALTER TABLE", {"public": 1}, True),
        ("ALTER TABLE", {"public": 2}, True),
        ("ALTER TABLE", {"public": 3}, True),
        ("ALTER TYPE", {"other": 1}, True),
    ]
    assert by_tag[-1] == ("ALTER TABLE", {}, False)
    assert log[1]["position"] == log[2]["position"]
    header, *lines = commands.lines("log")
    assert header == "id position at user command version acknowledged changed"
    assert "public 1 yes table public.orders" in lines[0]
    assert lines[-1].endswith("ALTER TABLE - - table public.sales")
    _show(commands, log)
    _diff(commands, log)


def _show(commands: Commands, log: list[Any]) -> None:
    first = log[0]["position"]
    ((oid,),) = commands.source.rows("SELECT 'sales'::regclass::oid")
    assert commands.lines("show", "orders", "--at", first) == [
        f"table public.orders at {first}, id {oid}",
        "",
        "id column type null value comment",
        f"{oid}-1 id integer not null GENERATED ALWAYS AS IDENTITY",
        f"{oid}-2 total numeric(10,2) not null",
        f"{oid}-3 twice numeric GENERATED ALWAYS AS ((total * (2)::numeric)) STORED",
        f"{oid}-4 tax numeric(4,2) not null",
        f"{oid}-5 note text COLLATE pg_catalog.\"C\" DEFAULT 'none'::text",
        "",
        "key orders_pkey: PRIMARY KEY (id)",
        "constraint positive: CHECK ((total > (0)::numeric))",
        "index CREATE INDEX by_total ON public.orders USING btree (total)",
        "replica identity the key",
        "comment what was sold",
    ]
    assert [each["name"] for each in commands.json("show", "orders", "--at", "0/1")["columns"]] == [
        "id",
        "total",
        "twice",
        "tax",
    ]
    now = commands.json("show", "public.sales")
    assert (now["id"], now["columns"][1]["id"]) == (str(oid), f"{oid}-2")
    assert [(each["number"], each["name"]) for each in now["columns"]] == [
        (1, "id"),
        (2, "amount"),
        (3, "twice"),
        (4, "tax"),
        (6, "unread"),
    ]
    assert (now["identity"], [each["name"] for each in now["indexes"]]) == ("FULL", ["by_total"])
    last = commands.json("show", "sales", "--at", log[-2]["position"])
    assert [each["name"] for each in last["columns"]] == ["id", "amount", "twice", "tax"]
    assert [each["name"] for each in last["indexes"]] == ["by_total"]
    assert any("partition of public.parted FOR VALUES" in line for line in commands.lines("show", "parted_1"))
    assert "partitioned by RANGE (at)" in commands.lines("show", "parted", "--at", first)
    assert "no table public.sale now. The nearest is public.sales" in commands.error("show", "sale")
    assert "no table public.orders now" in commands.error("show", "orders")
    refused = commands.error("show", "sales", "--at", first)
    assert f"no table public.sales at {first}" in refused
    assert "is not an LSN" in commands.error("show", "sales", "--at", "yesterday")


def _diff(commands: Commands, log: list[Any]) -> None:
    check = "constraint positive: definition: CHECK (({} > (0)::numeric)) -> CHECK (({} > (0)::numeric))"
    twice = "column twice: generated as: ({} * (2)::numeric) -> ({} * (2)::numeric)"
    columns = ("total", "amount")
    renamed = [
        "table public.sales: was public.orders",
        "table public.sales: column total renamed to amount",
        f"table public.sales: {twice.format(*columns)}",
        f"table public.sales: {check.format(*columns)}",
    ]
    ids = [str(each["id"]) for each in log]
    places = [each["position"] for each in log]
    assert commands.lines("diff", places[0], places[1], code=1) == renamed
    assert commands.lines("diff", ids[0], ids[2], code=1) == renamed
    assert commands.lines("diff", "1", "3", "--schema", "public", code=1) == renamed
    assert commands.lines("diff", ids[2], ids[3], code=1) == [
        "enum other.mood: labels: sad, glad -> sad, glad, fine"
    ]
    assert commands.lines("diff", ids[2], places[-2], "--schema", "public", code=1) == [
        "table public.sales: column tax: type: numeric(4,2) -> numeric(6,2)",
        "table public.sales: column tax: not null: yes -> none",
        "table public.sales: column note dropped",
        "table public.sales: identity: none -> FULL",
    ]
    assert "column note added (text)" in " ".join(commands.lines("diff", places[-2], ids[2], code=1))
    assert commands.lines("diff", "0/1", places[0], code=1) == [
        "table public.orders: column note added (text)"
    ]
    late = commands.json("diff", "0", "3", "--schema", "other", code=1)
    assert [(each["kind"], each["name"]) for each in late] == [("enum", "other.mood")]  # late came and went
    assert commands.lines("diff", ids[1], ids[1]) == []
    assert "has read no change 999" in commands.error("diff", "1", "999")
    assert "no version 9 of schema public" in commands.error("diff", "1", "9", "--schema", "public")
    assert "'x' is no place" in commands.error("diff", "x", "1")
    assert "compare what?" in commands.error("diff", "1")


def test_not_ready(database: Database, tmp_path: Path) -> None:
    """What is missing is named."""
    config = tmp_path / "config.yaml"
    config.write_text(f"state_dir: {tmp_path}/state\nsource: {{postgres: {{url: '{database.url}'}}}}\n")
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    commands = Commands(config, database, database)
    assert "does not note changes of its schema. Run: pgsluice init" in commands.error("show", "t")
    assert "not prepared" in commands.error("diff", "--live")
    init(database.url, InitOptions(event_triggers=False))
    assert "has no event triggers" in commands.error("show", "t")
    assert "has read no changes of the schema" in commands.error("diff", "1", "2")
    assert commands.lines("diff", "--live") == [
        "source: not compared with what its event triggers know: there are none"
    ]


def test_live(commands: Commands) -> None:
    """What the triggers could not see, and what a target has otherwise; it is left as it was."""
    assert commands.lines("diff", "--live") == []
    before = commands.target.rows("SELECT count(*), max(oid::int8) FROM pg_proc")
    commands.source.run("SET pgsluice.skip_ddl = on; ALTER TABLE orders ADD unseen int")
    commands.target.run(
        "ALTER TABLE parted_1 ADD CONSTRAINT more CHECK (id > 0)",
        "DROP INDEX by_total",
        "CREATE INDEX own ON orders (id)",
        "COMMENT ON TABLE orders IS 'else'",
        "CREATE SCHEMA of_the_target CREATE TABLE own (id int)",
    )
    assert sorted(commands.lines("diff", "--live", code=1)) == [
        "postgres: index public.by_total: is missing in the target",
        "postgres: index public.own: is only in the target",
        "postgres: table public.orders: column unseen is missing in the target",
        "postgres: table public.orders: comment: what was sold -> else",
        "postgres: table public.parted_1: constraint more is only in the target: CHECK ((id > 0))",
        "source: table public.orders: column unseen added (integer)",
    ]
    assert commands.target.rows("SELECT count(*), max(oid::int8) FROM pg_proc") == before
    found = commands.json("diff", "--live", code=1)
    assert (found["equal"], len(found["differences"]), found["notes"]) == (False, 6, [])
    assert found["differences"][0] == {
        "where": "source",
        "kind": "table",
        "name": "public.orders",
        "what": "column unseen added (integer)",
    }


def test_live_with_other_names(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Names of the target's own are no differences, nor are tables that are left out and what needs them."""
    database.run(
        "CREATE TABLE hidden (id int PRIMARY KEY, n serial)",
        "CREATE VIEW over_hidden AS SELECT id FROM hidden",
        "CREATE TABLE shown (id serial PRIMARY KEY, h int REFERENCES hidden, parent int REFERENCES shown)",
        "CREATE VIEW over_shown AS SELECT s.id, s.h FROM shown s WHERE s.h > 0",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )
    options = "schema_map: {other: 'Else'}, tables: {public.shown: {target: sales.seen}}"
    more = f"- duckdb: {{path: {tmp_path}/x.duckdb}}\nmodifiers: {{filter: {{exclude_tables: [hidden]}}}}\n"
    commands = make(database, target_database, tmp_path, options, more)
    assert commands.lines("diff", "--live") == ["duckdb: not compared: only PostgreSQL targets are"]
    target_database.run("DROP VIEW over_shown")
    assert commands.lines("diff", "--live", code=1)[0] == (
        "postgres: view public.over_shown: is missing in the target"
    )
