"""``pgsluice reload``: other rules for a pipeline that runs; faulty ones change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg

from pgsluice.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.fix_pg import Database


def write(file: Path, source: Database, target: Database, rules: dict[str, Any]) -> None:
    """The configuration with rules for the one table."""
    tables = [{"table": "people", "column_transformers": rules}]
    file.write_text(
        json.dumps(
            {
                "state_dir": str(file.parent / "state"),
                "source": {"postgres": {"url": source.url}},
                "target": {"postgres": {"url": target.url}},
                "modifiers": {"transformations": {"salt": "s", "table_transformers": tables}},
            }
        )
    )


def wait_for(target: Database, query: str, wanted: list[tuple[Any, ...]]) -> None:
    """Until the target has some rows."""
    deadline = time.monotonic() + 60
    found: object = None
    while time.monotonic() < deadline:
        try:
            found = target.rows(query)
        except psycopg.Error as exc:  # the table may not be there yet
            found = exc
        if found == wanted:
            return
        time.sleep(0.1)
    raise AssertionError(f"{found} is not {wanted}")


def test_other_rules_for_a_running_pipeline(
    database: Database, target_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the next batch on; refused as a whole when one is wrong; and nobody is asked when nothing runs."""
    database.run("CREATE TABLE people (id int PRIMARY KEY, name text, mail text)")
    file = tmp_path / "pipeline.yaml"
    masked, plain = {"name": "masking"}, {"name": "noop"}
    write(file, database, target_database, {"name": masked, "mail": masked})
    assert main(["reload", "-c", str(file)]) == 2
    assert "no pipeline runs" in capsys.readouterr().err
    command = [sys.executable, "-m", "pgsluice.cli.main", "run", "--init", "-c", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"}) as process:
        try:
            database.run("INSERT INTO people VALUES (1, 'canary', 'canary')")
            wait_for(target_database, "SELECT * FROM people", [(1, "*" * 6, "*" * 6)])
            write(file, database, target_database, {"name": plain, "mail": masked})
            assert main(["reload", "-c", str(file)]) == 0
            assert "from the next batch on" in capsys.readouterr().out
            database.run("INSERT INTO people VALUES (2, 'shown', 'canary')")
            wait_for(target_database, "SELECT * FROM people WHERE id = 2", [(2, "shown", "*" * 6)])
            write(file, database, target_database, {"name": masked, "id": {"name": "greenmask_integer"}})
            assert main(["reload", "-c", str(file)]) == 2
            refused = capsys.readouterr().err
            assert "public.people.id: greenmask_integer is random" in refused
            assert "the old ones stay" in refused
            database.run("INSERT INTO people VALUES (3, 'shown', 'canary')")
            wait_for(target_database, "SELECT * FROM people WHERE id = 3", [(3, "shown", "*" * 6)])
        finally:
            process.terminate()
            process.communicate()
    assert process.returncode == 0
    assert main(["reload", "-c", str(file)]) == 2
    assert "canary" not in str(target_database.rows("SELECT * FROM people"))
