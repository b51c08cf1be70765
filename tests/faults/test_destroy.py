"""``destroy`` while a run lives: refused, whatever the server says about the slot."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.faults.running import Runner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fix_pg import Database
    from tests.fix_proxy import DatabaseProxy

ACTIVE = "SELECT active FROM pg_replication_slots WHERE database = current_database()"


def test_a_run_that_has_lost_its_connection_still_counts(
    database: Database, proxy: DatabaseProxy, tmp_path: Path
) -> None:
    """The slot is free, but the run would take it again: the log's lock tells, and nothing is removed."""
    runner = Runner(proxy.url, tmp_path, admin_url=database.url)
    runner.prepare()
    runner.start()
    try:
        deadline = time.monotonic() + 120
        while not list((runner.log / "consumers").glob("*.json")):
            assert time.monotonic() < deadline, runner.tail()
            time.sleep(0.05)
        proxy.refuse()
        while database.rows(ACTIVE) != [(False,)]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        done = runner.command("destroy", "--source-url", database.url)
        assert (done.returncode, done.stdout) == (3, "")
        assert "error SLUICE-RUN-ACTIVE: process " in done.stderr
        assert f"is writing the change log {runner.log}. Stop that run first" in done.stderr
        assert database.rows(ACTIVE) == [(False,)]
        assert runner.log.exists()
        proxy.accept()
        assert runner.stop() == 0
    finally:
        runner.close()
    done = runner.command("destroy", "--source-url", database.url)
    assert done.returncode == 0, done.stderr
    assert database.rows(ACTIVE) == []
    assert not runner.log.exists()
