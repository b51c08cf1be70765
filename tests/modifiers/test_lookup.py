"""Values that are chosen from a column of another table of the source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pgsluice.cli.main import main
from pgsluice.errors import ConfigError
from pgsluice.modifiers.transforms.lookup import LookupChoice
from pgsluice.pipeline.lookups import ReadLookups
from tests.modifiers.test_masked_target import pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

TABLES = (
    'CREATE SCHEMA "odd ""name"',
    'CREATE TABLE "odd ""name"."Lands" (id int PRIMARY KEY, "the code" text, day date)',
    """INSERT INTO "odd ""name"."Lands" SELECT n, 'L' || n, date '2024-01-01' + n
       FROM generate_series(1, 30) n""",
    'INSERT INTO "odd ""name"."Lands" VALUES (98, NULL), (99, \'L1\')',
    "CREATE TABLE people (id int PRIMARY KEY, land text, day date)",
)
LANDS = '"odd ""name"."Lands"'


def choice(**parameters: Any) -> dict[str, Any]:
    """Parameters of a choice."""
    return {"lookup_table": LANDS, "lookup_column": "the code", **parameters}


def test_what_is_read(database: Database) -> None:
    """Each value once, in the order of texts, without NULL, so many as there may be."""
    database.run(*TABLES)
    lookups = ReadLookups(database.url)
    every = lookups.values(LookupChoice(**choice()))
    assert every == tuple(sorted(f"L{n}" for n in range(1, 31)))
    few = lookups.values(LookupChoice(**choice(max_values=3, ignore_values=["L1", "L10"])))
    assert few == ("L11", "L12", "L13")
    database.run(f"TRUNCATE {LANDS}")
    assert lookups.values(LookupChoice(**choice())) is every  # once
    for words, parameters in (
        ("has no value that lookup_choice could choose", choice()),
        ("ignore_values has what is no value", choice(ignore_values=["x"])),
        ("there is no .*nothing", choice(lookup_column="nothing")),
        ("there is no people2.id", {"lookup_table": "people2", "lookup_column": "id"}),
    ):
        with pytest.raises(ConfigError, match=words):
            ReadLookups(database.url).values(LookupChoice(**parameters))


@pytest.mark.spark
def test_rows(
    pair: tuple[Database, Database],
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Through a pipeline: values of the table, the same for the same value; faults are said at the start."""
    source, target = pair
    source.run(*TABLES)
    source.run(
        "INSERT INTO people SELECT n, 'canary' || n % 50, date '2000-01-01' FROM generate_series(1, 200) n"
    )
    days = {"name": "lookup_choice", "parameters": {**choice(), "lookup_column": "day"}}
    chosen = {"name": "lookup_choice", "parameters": choice(generator="deterministic", max_values=20)}
    rules = [{"schema": "public", "table": "people", "column_transformers": {"land": chosen, "day": days}}]
    assert pipeline(source, target, tmp_path, rules).run(once=True)
    source.run("INSERT INTO people SELECT n, 'canary' || n % 50 FROM generate_series(201, 300) n")
    assert pipeline(source, target, tmp_path, rules).run(once=True)
    rows = target.rows("SELECT id % 50, land FROM people")
    assert len(rows) == 300
    assert len(set(rows)) == 50
    assert {land for _, land in rows} <= set(sorted(f"L{n}" for n in range(1, 31))[:20])
    days_found = target.rows("SELECT DISTINCT extract(year FROM day)::int FROM people WHERE day IS NOT NULL")
    assert days_found == [(2024,)]
    wrong = tmp_path / "wrong.json.yaml"
    faulty = {
        "day": {"name": "lookup_choice", "parameters": choice()},
        "land": {**days, "parameters": choice(lookup_column="x")},
    }
    wrong.write_text(json.dumps({"table_transformers": [{"table": "people", "column_transformers": faulty}]}))
    assert main(["validate", "rules", "-f", str(wrong), "--source-url", source.url, "--json"]) == 1
    problems = {each["column"]: each["problem"] for each in json.loads(capsys.readouterr().out)["problems"]}
    assert "has values that date does not hold" in problems["day"]
    assert "there is no" in problems["land"]
