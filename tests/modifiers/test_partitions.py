"""Rules and filters of a partitioned table: they hold for all of its partitions, whenever these are made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pgsluice.cli.main import main
from pgsluice.errors import ConfigError
from tests.modifiers.ruled import CANARY, Ruled

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_pg import Database

pytestmark = pytest.mark.spark

EVENTS = (
    "CREATE TABLE events (id int, day date, who text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    "CREATE TABLE events_20 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
    """CREATE TABLE events_21 PARTITION OF events FOR VALUES FROM ('2021-01-01') TO ('2022-01-01')
       PARTITION BY RANGE (id)""",
    "CREATE TABLE events_21_a PARTITION OF events_21 FOR VALUES FROM (0) TO (100)",
    "INSERT INTO events VALUES (1, '2020-05-05', 'canary'), (2, '2021-05-05', 'canary')",
)
ROWS = "SELECT id, who FROM public.{} ORDER BY id"


@pytest.fixture
def run(database: Database, target_database: Database, tmp_path: Path, spark: SparkSession) -> Ruled:
    """Before its first run."""
    return Ruled(database, target_database, tmp_path)


@pytest.mark.parametrize("triggers", [True, False])
def test_rules_of_the_root(
    run: Ruled, triggers: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For partitions that are there, made, attached, detached and dropped before their rows are read."""
    run.more["source.postgres.replication.event_triggers"] = triggers
    run.targets = ["postgres", "files"] if triggers else ["duckdb", "files"]
    run.rule("events", who="masking")
    run.once(*EVENTS)
    run.require_no_canary()
    run.source.run(
        "INSERT INTO events VALUES (3, '2020-06-06', 'canary')",
        "CREATE TABLE events_22 PARTITION OF events FOR VALUES FROM ('2022-01-01') TO ('2023-01-01')",
        "INSERT INTO events VALUES (4, '2022-06-06', 'canary')",
        "CREATE TABLE events_21_b PARTITION OF events_21 FOR VALUES FROM (100) TO (200)",
        "INSERT INTO events VALUES (100, '2021-06-06', 'canary')",
        "ALTER TABLE events DETACH PARTITION events_20",
        "INSERT INTO events_20 VALUES (5, '2020-07-07', 'canary')",
    )
    if triggers:
        run.source.run(
            "CREATE TABLE short PARTITION OF events FOR VALUES FROM ('2023-01-01') TO ('2024-01-01')",
            "INSERT INTO events VALUES (6, '2023-06-06', 'canary')",
            "ALTER TABLE events DETACH PARTITION short",
            "DROP TABLE short",
            "CREATE TABLE joins (id int, day date, who text, PRIMARY KEY (id, day))",
            "INSERT INTO joins VALUES (7, '2024-06-06', 'birdie')",
            "ALTER TABLE events ATTACH PARTITION joins FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
            "INSERT INTO events VALUES (8, '2024-07-07', 'canary')",
        )
    run.once()
    run.once()  # with what is copied anew
    run.require_no_canary()
    if triggers:
        masked = [(n, "*" * 6) for n in (2, 4, 7, 8, 100)]
        assert run.target.rows(ROWS.format("events")) == masked
        assert run.target.rows(ROWS.format("events_20")) == [(n, "*" * 6) for n in (1, 3, 5)]
    else:
        assert run.in_duckdb(ROWS.format("events_20")) == [(n, "*" * 6) for n in (1, 3, 5)]
        assert run.in_duckdb(ROWS.format("events_22")) == [(4, "*" * 6)]
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps({"modifiers": run.modifiers}))
    state = str(run.place / "state")
    shown = ["tail", "--state-dir", state, "--from", "earliest", "--limit", "3", "-c", str(file)]
    assert main(shown) == 0
    told = capsys.readouterr().out
    assert "events_22" in told
    assert CANARY not in told


def test_a_leaf_of_its_own_and_filters(run: Ruled) -> None:
    """Rules that name a partition hold there in place of the root's; conditions of the root hold for all."""
    run.targets = ["postgres"]
    run.modifiers["filter"] = {
        "tables": {"public.events": {"where": "id % 2 = 0"}, "public.events_21": {"operations": ["insert"]}}
    }
    run.rule("events", who="masking").rule("events_21_a", who={"name": "literal_string", "parameters": {
        "literal": "own"}})  # fmt: skip
    run.once(*EVENTS)
    run.once(
        "CREATE TABLE events_22 PARTITION OF events FOR VALUES FROM ('2022-01-01') TO ('2023-01-01')",
        "INSERT INTO events SELECT n, '2022-06-06', 'canary' FROM generate_series(10, 13) n",
        "DELETE FROM events WHERE id IN (2, 12)",
        "INSERT INTO events VALUES (15, '2021-05-05', 'canary')",
    )
    run.require_no_canary()
    assert run.target.rows(ROWS.format("events")) == [(2, "own"), (10, "*" * 6), (15, "own")]


def test_what_is_refused(run: Ruled) -> None:
    """A rule on what tells rows to partitions, columns of a root, conditions whose leaves lack old rows."""
    run.targets = ["postgres"]
    run.source.run(*EVENTS)
    run.rule("events", day={"name": "truncate", "parameters": {"part": "year"}})
    with pytest.raises(ConfigError, match=r"events\.day: rows are told to partitions by this column"):
        run.once()
    run.modifiers = {"filter": {"tables": {"public.events": {"columns": {"exclude": ["who"]}}}}}
    with pytest.raises(ConfigError, match=r"leaves out columns of public\.events, which has them in common"):
        run.once()
    run.modifiers = {"filter": {"tables": {"public.events": {"where": "who = 'x'"}}}}
    with pytest.raises(ConfigError, match=r"public\.events_\w+ names who, whose old values are not"):
        run.once()
