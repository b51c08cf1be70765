"""Partitioned tables of the target: rows are found in their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgsluice import Pipeline, PostgresSink, PostgresSource
from pgsluice.sinks.postgres import PostgresConfig
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

PARTITIONS = (
    "CREATE TABLE half_1 PARTITION OF root FOR VALUES FROM (0) TO (50)",
    "CREATE TABLE half_2 PARTITION OF root FOR VALUES FROM (50) TO (200)",
)


def run_once(database: Database, target: Database, tmp_path: Path, schema_copy: str, **options: Any) -> None:
    """Bring the target up to date."""
    sink = PostgresSink(PostgresConfig.model_validate({"url": target.url, "schema_copy": schema_copy}))
    source = PostgresSource(database.url, init=True, **options)
    Pipeline(source, sink, state_dir=tmp_path / "state").run(once=True)


@pytest.mark.parametrize(("key", "via_root"), [("PRIMARY KEY (id)", True), ("CHECK (true)", False)])
def test_changes_find_their_rows(
    database: Database, target_database: Database, tmp_path: Path, key: str, via_root: bool
) -> None:
    """Published by the root's name, or plain on the source and partitioned on the target alone."""
    table = f"CREATE TABLE root (id int, v text, {key})"
    divided = f"{table} PARTITION BY RANGE (id)"
    options: dict[str, Any] = {"keyless": "full"}
    schema_copy = "leave"
    if via_root:
        database.run(
            divided,
            *PARTITIONS,
            "CREATE PUBLICATION mine FOR TABLE root WITH (publish_via_partition_root = true)",
            *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("root", "half_1", "half_2")),
        )
        options, schema_copy = {"publication": "mine"}, "create"
    else:
        database.run(table)
        target_database.run(divided, *PARTITIONS)
    database.run("INSERT INTO root SELECT g, 'x' FROM generate_series(1, 99) g")
    changes = (
        "UPDATE root SET v = 'y' WHERE id % 10 = 0",
        "UPDATE root SET id = id + 100 WHERE id < 5",
        "DELETE FROM root WHERE id % 7 = 0",
    )
    for then in (changes, ("TRUNCATE root",)):
        run_once(database, target_database, tmp_path, schema_copy, **options)
        assert source_rows(target_database, "root") == source_rows(database, "root")
        database.run(*then)
    run_once(database, target_database, tmp_path, schema_copy, **options)
    assert source_rows(target_database, "root") == source_rows(database, "root") == []
