"""Rows that go through the modifiers by other ways than the stream's, and into other targets."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pgsluice.cli.main import main
from pgsluice.pipeline.resync import ask_for_copy
from tests.modifiers.ruled import CANARY, Ruled

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

pytestmark = pytest.mark.spark


@pytest.fixture
def run(database: Database, target_database: Database, tmp_path: Path, spark: SparkSession) -> Ruled:
    """Before its first run."""
    return Ruled(database, target_database, tmp_path)


def test_resync_and_replay(run: Ruled, capsys: pytest.CaptureFixture[str]) -> None:
    """What is copied anew, and what is replayed from dead letters, is changed as all else was."""
    run.targets = ["postgres"]
    run.more["on_error"] = "dead_letter"
    run.rule("item", login="hash", t="masking")
    run.once(
        "CREATE TABLE item (login text PRIMARY KEY, n int, t text)",
        "INSERT INTO item VALUES ('canary1', 1, 'canary'), ('canary2', 2, 'canary')",
    )
    run.target.run("ALTER TABLE item ADD CONSTRAINT luck CHECK (n <> 13)")
    run.once("INSERT INTO item VALUES ('canary3', 13, 'canary')")
    run.once("UPDATE item SET n = 4 WHERE n = 13")  # waits behind it
    assert run.target.rows("SELECT count(*) FROM item") == [(2,)]
    run.target.run("ALTER TABLE item DROP CONSTRAINT luck")
    config = run.config()
    file = run.place / "c.yaml"
    given = {
        "state_dir": str(config.state_dir),
        "on_error": "dead_letter",
        "source": {"postgres": {"url": run.source.url}},
        "targets": [{"name": "postgres", "postgres": {"url": run.target.url}}],
        "modifiers": run.modifiers,
    }
    file.write_text(json.dumps(given))
    assert main(["dlq", "replay", "--all", "-c", str(file)]) == 0
    masked = [(1, "*" * 6), (2, "*" * 6), (4, "*" * 6)]
    assert run.target.rows("SELECT n, t FROM item ORDER BY n") == masked
    keys = run.target.rows("SELECT login FROM item ORDER BY n")
    run.target.run("DELETE FROM item WHERE n < 4", "UPDATE item SET t = 'wrong'")
    ask_for_copy(run.source.url, config.name, config.state_dir, ["postgres"], ("public", "item"))
    run.once()
    assert run.target.rows("SELECT n, t FROM item ORDER BY n") == masked
    assert run.target.rows("SELECT login FROM item ORDER BY n") == keys
    run.require_no_canary()
    shown = capsys.readouterr()
    assert CANARY not in shown.out + shown.err


@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_conditions_into_other_targets(run: Ruled, way: str) -> None:
    """A DuckDB file has the rows that fulfil the condition; lines of files say how they came and went."""
    run.targets = ["duckdb", "files"]
    run.modifiers["filter"] = {"tables": {"public.orders": {"where": "total > 10"}}}
    run.once(
        "CREATE TABLE orders (id int PRIMARY KEY, total numeric)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT n, n FROM generate_series(1, 20) n",
    )
    run.once(
        "UPDATE orders SET total = 30 WHERE id = 1",
        "UPDATE orders SET total = 2 WHERE id = 20",
        "UPDATE orders SET total = total + 1 WHERE id = 15",
        "UPDATE orders SET total = 3 WHERE id = 2",
        "DELETE FROM orders WHERE id IN (3, 16)",
        "INSERT INTO orders VALUES (21, 1), (22, 22)",
        way=way,
    )
    query = "SELECT id, total FROM public.orders {} ORDER BY id"
    found = run.in_duckdb("SELECT id, total::DECIMAL(9, 0) FROM public.orders ORDER BY id")
    assert found == run.source.rows(query.format("WHERE total > 10"))
    files = sorted((run.place / "feed" / "public.orders").rglob("*.jsonl"))
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert Counter(line["action"] for line in lines) == {"I": 10 + 2, "U": 1, "D": 2}


@pytest.mark.parametrize("way", ["driver", "tasks"])
def test_clean_texts_in_targets(run: Ruled, way: str) -> None:
    """An escape of NUL in a json, which a jsonb refuses, is in no target; copied or streamed."""
    run.modifiers["sanitize"] = True
    run.once(
        "CREATE TABLE docs (id int PRIMARY KEY, doc json)",
        r"""INSERT INTO docs VALUES (1, '{"a": "x\u0000y"}')""",
    )
    run.once(
        r"""INSERT INTO docs VALUES (2, '{"a": "x\\u0000y"}'), (3, '{"a": "\u0000"}')""",
        way=way,
    )
    wanted = [(1, '{"a": "xy"}'), (2, r'{"a": "x\\u0000y"}'), (3, '{"a": ""}')]
    assert run.target.rows("SELECT id, doc::text FROM docs ORDER BY 1") == wanted
    assert run.target.rows("SELECT count(doc::jsonb) FROM docs") == [(3,)]
    assert run.in_duckdb("SELECT id, doc::VARCHAR FROM public.docs ORDER BY 1") == wanted
