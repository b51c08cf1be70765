"""A schema that gets another name while others write to its tables, which come under the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.schema_changes.test_postgres_target import Pair, dump, rows, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database


@pytest.mark.both_versions
def test_while_others_write(database: Database, target_database: Database, tmp_path: Path) -> None:
    """Transactions that had begun before, and end after, one or two renames."""
    pair = Pair(database, target_database)
    database.run("CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)", "CREATE TABLE s.u (id int)")
    run(pair, tmp_path)
    with database.connect() as early, database.connect() as later:
        for conn in (early, later):
            conn.autocommit = False
        early.execute("INSERT INTO s.t VALUES (1)")
        early.execute("INSERT INTO s.u VALUES (1)")
        database.run("INSERT INTO s.t VALUES (2)", "ALTER SCHEMA s RENAME TO s_2")
        early.execute("INSERT INTO s_2.t VALUES (3)")
        later.execute("INSERT INTO s_2.t VALUES (4)")
        early.commit()
        database.run("INSERT INTO s_2.t VALUES (5)", "ALTER SCHEMA s_2 RENAME TO s_3")
        later.execute("INSERT INTO s_3.u VALUES (6)")
        later.commit()
    run(pair, tmp_path)
    database.run("INSERT INTO s_3.t VALUES (7)")
    run(pair, tmp_path)
    assert dump(target_database, "s") == dump(database, "s")
    held = rows(database, "s")
    assert rows(target_database, "s") == held
    assert sum(map(len, held.values())) == 8
    print("compared 8 rows")
