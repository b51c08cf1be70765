"""The reply to a COMMIT is lost between the target and us: what was committed is not written again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgsluice import BatchOptions, PostgresSink
from pgsluice.pipeline.copy_report import read_reports
from tests.fix_proxy import DatabaseProxy
from tests.pipeline.test_copy import cut_small, pipeline
from tests.pipeline.test_run import source_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proof import Proof

OPENING = 1  # COMMITs of a run before its first batch; a new target has to be there
IN_COPY = (3, 6, 11, 24)  # which are lost: those of a batch's ranges come again, so ever fewer
TABLES = ("bag", "item")


@pytest.fixture
def source(database: Database) -> Database:
    """Tables with and without a key, some larger than a range."""
    database.run(
        "CREATE TABLE bag (n int, t text)",
        "INSERT INTO bag SELECT g % 50, repeat('b', 200) FROM generate_series(1, 2000) g",
        "CREATE TABLE item (id int PRIMARY KEY, n int, t text)",
        "INSERT INTO item SELECT g, g, repeat('i', 200) FROM generate_series(1, 1000) g",
    )
    return database


def test_in_the_copy_and_in_the_stream(
    source: Database,
    target_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    proof: Proof,
) -> None:
    """Of ranges, of batches and of progress alone; in the stream a third of them all."""
    cut_small(monkeypatch)
    monkeypatch.setattr("pgsluice.pipeline.copy.SMALL_BYTES", 1 << 30)  # by the driver, one after the other
    between = DatabaseProxy(target_database)
    try:
        between.lose_answers(b"COMMIT", lambda said: said in IN_COPY)
        each = BatchOptions(max_changes=1)
        pipeline(source, PostgresSink(between.url), tmp_path, batch=each).run(once=True)
        copied, in_copy = between.said, between.lost
        assert in_copy >= 3
        (report,) = read_reports(tmp_path / "state")
        assert {table.table: table.rows for table in report.tables} == {
            "public.bag": 2000,
            "public.item": 1000,
        }
        for number in range(12):
            source.run(
                f"BEGIN; INSERT INTO bag SELECT {number}, 'new' FROM generate_series(1, 3);"
                f" UPDATE item SET n = n + 1 WHERE id % 12 = {number};"
                f" DELETE FROM bag WHERE ctid = (SELECT ctid FROM bag WHERE n = {number} LIMIT 1); COMMIT"
            )
        between.lose_answers(b"COMMIT", lambda said: said > copied + OPENING and said % 3 == 0)
        pipeline(source, PostgresSink(between.url), tmp_path, batch=each).run(once=True)
        assert between.lost >= in_copy + 4
    finally:
        between.close()
    compared = 0
    for table in TABLES:
        wanted = source_rows(source, table)
        assert source_rows(target_database, table) == wanted, table
        compared += len(wanted)
    assert target_database.rows("SELECT count(*) FROM pgsluice.copied_range") == [(0,)]
    proof(f"{between.lost} replies of {between.said} lost, compared {compared} rows: equal")
