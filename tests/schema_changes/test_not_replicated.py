"""Kinds of objects that can't be replicated, and changes that nobody noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import PostgresSink
from pgsluice.errors import ChangeRefusedError
from pgsluice.sinks.postgres.config import PostgresConfig
from tests.pipeline.letters import letters
from tests.pipeline.test_run import source_rows
from tests.schema_changes.test_ways import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database

pytestmark = pytest.mark.both_versions

TABLE = ("CREATE TABLE t (id int PRIMARY KEY, a int, b text)", "INSERT INTO t VALUES (1, 1, 'one')")
UNSUPPORTED = {
    "foreign table": (
        "CREATE FOREIGN DATA WRAPPER w",
        "CREATE SERVER s FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE far (id int) SERVER s",
    ),
    "base type": (
        "CREATE TYPE own",
        "CREATE FUNCTION own_in(cstring) RETURNS own LANGUAGE internal STRICT IMMUTABLE AS 'int4in'",
        "CREATE FUNCTION own_out(own) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'int4out'",
        "CREATE TYPE own (INPUT = own_in, OUTPUT = own_out, LIKE = int4)",
    ),
    "aggregate": (
        """CREATE AGGREGATE nth(float8 ORDER BY anyelement) (SFUNC = ordered_set_transition,
           STYPE = internal, FINALFUNC = percentile_disc_final, FINALFUNC_EXTRA)""",
    ),
}


def sink(target: Database, **options: object) -> PostgresSink:
    """The target with some options."""
    return PostgresSink(PostgresConfig.model_validate({"url": target.url, **options}))


@pytest.mark.parametrize("kind", list(UNSUPPORTED))
def test_it_stops_or_is_left_out(
    database: Database,
    target_database: Database,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The remedy passes over that change alone, and says so; or it is put aside as a letter."""
    database.run(*TABLE)
    run(database.url, sink(target_database), tmp_path)
    database.run(*UNSUPPORTED[kind], "CREATE INDEX t_a ON t (a)", "INSERT INTO t VALUES (2, 2, 'two')")
    with pytest.raises(ChangeRefusedError, match=f"a new or changed {kind}.* can't be replicated") as caught:
        run(database.url, sink(target_database), tmp_path)
    assert f"schema_exclude: [{kind}]" in str(caught.value.remedy)
    assert caught.value.fields["position"]
    run(database.url, sink(target_database, schema_exclude=[kind]), tmp_path)
    assert "schema change passed over" in capsys.readouterr().err
    assert source_rows(target_database, "t") == source_rows(database, "t")
    assert target_database.rows("SELECT to_regclass('t_a') IS NOT NULL") == [(True,)]


def test_it_is_put_aside(database: Database, target_database: Database, tmp_path: Path) -> None:
    """With ``on_error: dead_letter`` the change is a letter, and everything else goes on."""
    database.run(*TABLE)
    run(database.url, sink(target_database), tmp_path, on_error="dead_letter")
    database.run(
        *UNSUPPORTED["foreign table"], "CREATE INDEX t_a ON t (a)", "INSERT INTO t VALUES (2, 2, 'two')"
    )
    run(database.url, sink(target_database), tmp_path, on_error="dead_letter")
    (letter,) = letters(tmp_path)
    assert (letter.table, letter.op, letter.code) == ("public.far", "DDL", "SLUICE-CHANGE-REFUSED")
    assert source_rows(target_database, "t") == source_rows(database, "t")


@pytest.mark.parametrize(
    "change", ["ADD c int DEFAULT 7", "DROP COLUMN b", "RENAME b TO c", "ALTER a TYPE bigint USING a"]
)
def test_a_change_that_nobody_noted(
    database: Database, target_database: Database, tmp_path: Path, change: str
) -> None:
    """What became of columns is found by the next row; the next noted change may stop because of it."""
    database.run(*TABLE)
    run(database.url, sink(target_database), tmp_path)
    database.run(f"SET pgsluice.skip_ddl = on; ALTER TABLE t {change}", "UPDATE t SET id = 5")
    run(database.url, sink(target_database), tmp_path)
    assert source_rows(target_database, "t") == source_rows(database, "t")
    database.run("ALTER TABLE t ADD d int", "UPDATE t SET d = 6")
    if change.startswith(("ADD", "RENAME")):
        with pytest.raises(ChangeRefusedError, match=r"column .* (already exists|does not exist)") as caught:
            run(database.url, sink(target_database), tmp_path)
        assert "schema_changes: ignore for one start" in str(caught.value.remedy)
        target_database.run("ALTER TABLE t ADD d int")
        run(database.url, sink(target_database, schema_changes="ignore"), tmp_path)
    run(database.url, sink(target_database), tmp_path)
    assert source_rows(target_database, "t") == source_rows(database, "t")
    database.run("ALTER TABLE t ADD e int", "UPDATE t SET e = 7")
    run(database.url, sink(target_database), tmp_path)
    assert source_rows(target_database, "t") == source_rows(database, "t")
