"""``pgsluice verify``: what people type, what they are told, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import duckdb

from pgsluice.cli.main import main
from tests.cli.command_lines import to_duckdb

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.fix_pg import Database


def configured(place: Path, database: Database) -> list[str]:
    """The command, for a pipeline whose tables are in ``x.duckdb``."""
    database.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)",
        "INSERT INTO item SELECT g, 'item ' || g FROM generate_series(1, 100) g",
    )
    file = place / "pipeline.yaml"
    file.write_text(
        f"state_dir: {place / 'state'}\n"
        f'source: {{postgres: {{url: "{database.url}"}}}}\n'
        f"target: {{duckdb: {{path: {place / 'x.duckdb'}}}}}\n"
    )
    return ["verify", "-c", str(file)]


def test_told(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and a table while all is equal; 1 and the rows when it is not; the same as JSON."""
    command = configured(tmp_path, database)
    assert main(command) == 4  # there is no file yet
    assert "there is no DuckDB file" in capsys.readouterr().err
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    capsys.readouterr()
    assert main(command) == 0
    said = capsys.readouterr().out
    assert said.startswith("duckdb: no run is active, at 0/")
    assert said.splitlines()[2].split() == ["public.item", "100", "100", "0", "0", "0", "equal"]
    with duckdb.connect(str(tmp_path / "x.duckdb")) as conn:
        conn.execute("DELETE FROM public.item WHERE id = 7")
        conn.execute("UPDATE public.item SET name = 'x' WHERE id = 9")
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "public.item: missing: id = 7\n" in said
    assert "public.item: different: id = 9\n" in said
    assert main([*command, "--json", "--tables", "item", "--limit", "1"]) == 1
    told = json.loads(capsys.readouterr().out)
    (table,) = told["targets"][0]["tables"]
    assert (told["equal"], table["missing"], table["different"]) == (False, 1, 1)
    assert table["rows"] == [{"kind": "missing", "key": {"id": "7"}, "rows": [1, 0]}]


def test_another_target(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that there isn't is told with those that there are."""
    command = configured(tmp_path, database)
    assert main([*command, "--target", "postgres"]) == 2
    assert "Name one of: duckdb" in capsys.readouterr().err


def test_a_file_in_use(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another process writes to the DuckDB file: one line, and the exit code of a target."""
    command = configured(tmp_path, database)
    assert main([*to_duckdb(tmp_path, database.url), "--once"]) == 0
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "x.duckdb")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        capsys.readouterr()
        assert main(command) == 4
        assert "SLUICE-TARGET-LOCKED" in capsys.readouterr().err
        assert holder.stdin is not None
        holder.stdin.close()
        deadline = time.monotonic() + 10
        while holder.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    assert main(command) == 0
