"""Every output of a run, into every sink, scanned for values that rules have to change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

from pgsluice.source.snapshot.schema_dump import find_pg_dump

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fix_pg import Database

WORDS = ("canary", "7294816", "1987-06-05", "0044-03-15")
BIG = "(SELECT string_agg(md5(i::text) || 'canary', '') FROM generate_series(1, 300) i)"
TABLES = [
    """CREATE TABLE people (login text PRIMARY KEY, name text, mail text, pay numeric(12, 2), born date,
       big text, kind text, CHECK (mail <> 'canary check'))""",
    "ALTER TABLE people ALTER mail SET DEFAULT 'canary default'",
    "COMMENT ON COLUMN people.mail IS 'canary comment'",
    "CREATE INDEX ON people (kind) WHERE mail = 'canary index'",
    "CREATE TABLE pairs (a text, b text); ALTER TABLE pairs REPLICA IDENTITY FULL",
    "CREATE TABLE item (id int PRIMARY KEY, n int, t text)",
    "CREATE TABLE events (id int, day date, who text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    "CREATE TABLE events_20 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
    f"""INSERT INTO people SELECT 'canary' || n, 'canary name', 'canary@canary.example', 7294816.5,
        '1987-06-05', {BIG}, 'plain' FROM generate_series(1, 50) n""",
    "INSERT INTO pairs SELECT 'canary' || n % 3, 'b' FROM generate_series(1, 9) n",
    "INSERT INTO item VALUES (1, 1, 'canary')",
    "INSERT INTO events VALUES (1, '2020-05-05', 'canary')",
]
CHANGES = [
    "UPDATE people SET kind = 'still' WHERE login < 'canary3'",
    "UPDATE people SET login = 'canary-moved' WHERE login = 'canary30'",
    "DELETE FROM people WHERE login IN ('canary40', 'canary41')",
    "UPDATE pairs SET b = 'c' WHERE a = 'canary1'",
    "DELETE FROM pairs WHERE a = 'canary2'",
    """INSERT INTO people SELECT 'canary-late' || n, 'canary', NULL, 7294816, '1987-06-05', 'canary', 'x'
       FROM generate_series(1, 3000) n""",
    "CREATE TABLE events_21 PARTITION OF events FOR VALUES FROM ('2021-01-01') TO ('2022-01-01')",
    "INSERT INTO events VALUES (2, '2021-05-05', 'canary')",
    "ALTER TABLE people ADD extra text DEFAULT 'canary extra'",
    "CREATE INDEX ON people (login) WHERE extra = 'canary'",
]
RENAME = [
    "DO $$ BEGIN ALTER TABLE people RENAME name TO called; INSERT INTO item VALUES (3, 3, 'canary'); END $$",
    "INSERT INTO people (login, called) VALUES ('canary-last', 'canary')",
]
RULES: dict[str, dict[str, Any]] = {
    "people": {
        "login": {"name": "hash"},
        "name": {"name": "masking"},
        "mail": {"name": "email"},
        "pay": {"name": "bucket", "parameters": {"size": 1000}},
        "born": {"name": "truncate", "parameters": {"part": "year"}},
        "big": {"name": "masking"},
    },
    "pairs": {"a": {"name": "masking"}},
    "item": {"t": {"name": "masking"}},
    "events": {"who": {"name": "masking"}},
}


class Plan:
    """Steps for a process of its own, and all that they write."""

    def __init__(self, source: Database, target: Database, place: Path) -> None:
        self.source, self.target, self.place = source, target, place
        self.steps: list[dict[str, Any]] = []
        self._files = 0

    def config(self, rules: dict[str, dict[str, Any]], on_error: str, values: str) -> str:
        """A configuration with all sinks; ``values`` is what becomes of one that can't be changed."""
        feeds = {
            "parquet": {"format": "parquet"},
            "jsonl": {"format": "jsonl"},
            "wal2json": {"format": "jsonl", "events": "wal2json"},
        }
        targets = [
            {"name": "pg", "postgres": {"url": self.target.url}},
            {"name": "duck", "duckdb": {"path": str(self.place / "target.duckdb")}},
            {"name": "memory", "memory": {"name": "driven"}},
            {"name": "lines", "stdout": {}},
            {"name": "lines2", "stdout": {"format": "wal2json"}},
            *({"name": n, "files": {"path": str(self.place / "feed" / n), **f}} for n, f in feeds.items()),
        ]
        given = {
            "state_dir": str(self.place / "state"),
            "source": {"postgres": {"url": self.source.url, "replication": {"keyless": "full"}}},
            "targets": targets,
            "on_error": on_error,
            "spark": {"conf": {"spark.log.level": "DEBUG"}},
            "modifiers": {
                "transformations": {
                    "salt": "a salt of tests",
                    "on_error": values,
                    "table_transformers": [
                        {"table": table, "column_transformers": columns} for table, columns in rules.items()
                    ],
                }
            },
        }
        self._files += 1
        path = self.place / f"config-{self._files}.yaml"
        path.write_text(json.dumps(given))
        return str(path)

    def sql(self, database: Database, *statements: str) -> None:
        """Statements."""
        self.steps.append({"sql": statements, "url": database.url})

    def line(self, *words: str, code: int = 0) -> None:
        """A command line."""
        output = str(self.place / "output")
        self.steps.append({"line": words, "code": code, "output": output})

    def run(self) -> None:
        """All of it."""
        path = self.place / "plan.json"
        path.write_text(json.dumps(self.steps))
        with (self.place / "errors").open("wb") as errors:
            done = subprocess.run(
                [sys.executable, "-m", "tests.modifiers.driven", str(path)],
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                check=False,
            )
        assert done.returncode == 0, (self.place / "errors").read_text()[-3000:]

    def outputs(self) -> Iterator[tuple[str, bytes]]:
        """Everything that was written, but for the change log, which has plain rows."""
        for name in ("output", "errors", "memory.json", "target.duckdb"):
            yield name, (self.place / name).read_bytes()
        for path in sorted([*(self.place / "feed").rglob("*"), *(self.place / "state").rglob("*")]):
            if path.is_file() and (self.place / "state" / "log") not in path.parents:
                yield str(path), path.read_bytes()
                if path.suffix == ".parquet":
                    yield f"{path} (decoded)", str(pq.read_table(path).to_pylist()).encode()
        with duckdb.connect(str(self.place / "target.duckdb"), read_only=True) as held:
            for schema, table in held.execute(
                "SELECT table_schema, table_name FROM information_schema.tables"
            ).fetchall():
                yield f"duckdb {table}", str(held.execute(f'FROM "{schema}"."{table}"').fetchall()).encode()
        program = find_pg_dump(18)
        assert program is not None
        dumped = subprocess.run([program, f"--dbname={self.target.url}"], capture_output=True, check=True)
        yield "pg_dump", dumped.stdout


@pytest.mark.timeout(600)
def test_nothing_plain_leaves(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Copied, streamed, refused, shown and logged; only ``schema log`` has what the source's own log has."""
    plan = Plan(database, target_database, tmp_path)
    debug = ("--log-level", "debug")
    first = plan.config(RULES, "stop", "stop")
    plan.sql(database, *TABLES)
    plan.line("run", "--init", "--once", "-c", first, *debug)
    plan.sql(target_database, "ALTER TABLE item ADD CONSTRAINT luck CHECK (n <> 13)")
    plan.sql(database, "INSERT INTO people (login, born) VALUES ('canary-bc', '0044-03-15 BC')")
    plan.line("run", "--once", "-c", first, *debug, code=2)  # a value that can't be changed
    lenient = plan.config(RULES, "stop", "null")
    plan.sql(database, "INSERT INTO item VALUES (2, 13, 'canary')")
    plan.line("run", "--once", "-c", lenient, *debug, code=4)  # a row that a target refuses
    plan.sql(database, *CHANGES)
    people = {**RULES["people"], "extra": {"name": "masking"}}
    letters = plan.config({**RULES, "people": people}, "dead_letter", "null")
    plan.line("run", "--once", "-c", letters, *debug)
    for words in (("status",), ("status", "--json")):
        plan.line(*words, "-c", letters, *debug, code=1)  # nothing runs now
    tail = ("tail", "--from", "earliest", "--limit", "20")
    for words in (("dlq", "list"), ("dlq", "show", "1"), tail):
        plan.line(*words, "-c", letters, *debug)
    plan.sql(database, *RENAME)
    people["called"] = people.pop("name")
    renamed = plan.config({**RULES, "people": people}, "dead_letter", "null")
    plan.line("run", "--once", "-c", renamed, *debug)
    plan.line("dlq", "show", "1", "-c", renamed, *debug)
    for target, code in (("pg", 1), ("duck", 0)):  # one lacks the row of the letter: its key is shown
        plan.line("verify", "--target", target, "-c", renamed, *debug, code=code)
    plan.run()

    told, scanned, seen = [], 0, set[str]()
    for name, written in plan.outputs():
        scanned += len(written)
        if b"still" in written:  # a value that no rule is for: the scan would find others, too
            seen.add(name.rpartition(".")[2])
        told += [
            (name, written[max(at - 200, 0) : at + 60])
            for word in WORDS
            if (at := written.find(word.encode())) >= 0
        ]
    rows = target_database.rows("SELECT count(*) FROM people")[0][0]
    lines = (tmp_path / "output").read_bytes().count(b"\n")
    print(f"\nscanned {scanned} bytes; {rows} rows of people in the target, {lines} lines on standard output")
    assert not told, f"{len(told)} places: {told[:5]}"
    assert seen.issuperset({"output", "json", "jsonl", "parquet (decoded)", "duckdb people", "pg_dump"}), seen
    assert rows == database.rows("SELECT count(*) FROM people")[0][0]
    assert b"DEBUG" in (tmp_path / "errors").read_bytes()  # Spark's own lines are among them
    assert lines > rows
