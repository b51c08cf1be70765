"""NOT NULL that older rows are not held to, from PostgreSQL 18 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.schema_changes.test_postgres_target import Pair, require_equal, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


def test_not_null_not_valid(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Made, and checked or dropped later."""
    pair = Pair(database, target_database)
    database.run(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int PRIMARY KEY, a int, b int, c int)",
        "INSERT INTO s.t VALUES (1), (2)",
    )
    run(pair, tmp_path)
    database.run(
        *(f"ALTER TABLE s.t ADD CONSTRAINT nn_{column} NOT NULL {column} NOT VALID" for column in "abc"),
        "INSERT INTO s.t VALUES (3, 3, 3, 3)",
        "UPDATE s.t SET a = 1, b = 1, c = 1 WHERE id < 3",
        "ALTER TABLE s.t VALIDATE CONSTRAINT nn_a",
        "ALTER TABLE s.t DROP CONSTRAINT nn_b",
    )
    run(pair, tmp_path)
    require_equal(pair)
