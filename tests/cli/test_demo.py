"""``pgsluice demo``: what it shows, that it needs no network, and that it does not call unequal equal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from pgsluice.cli import demo
from pgsluice.cli.main import main
from pgsluice.embedded.shop import TABLES
from tests.cli.offline import NOT_ALLOWED

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]


def test_without_a_network(tmp_path: Path) -> None:
    """On a machine that reaches nobody it replicates, compares every table, and says what to try next."""
    kept = tmp_path / "kept.duckdb"
    program = [sys.executable, "-m", "pgsluice.cli.main", "demo", "--seconds", "1", "--keep", str(kept)]
    command = [sys.executable, "-m", "tests.cli.offline", *program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    if done.returncode == NOT_ALLOWED:
        pytest.skip("no right to make a network namespace here")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = dict(re.findall(r"^  (\w+) +([\d,]+) rows  equal$", done.stdout, re.M))
    assert set(rows) == set(TABLES)
    compared = sum(int(count.replace(",", "")) for count in rows.values())
    assert compared > 0
    assert f"equal: {compared:,} rows compared in {len(TABLES)} tables\n" in done.stdout
    after = done.stdout.partition("What to try next:\n")[2]
    assert f"duckdb {kept} 'FROM public.purchase'" in after
    assert "pgsluice run --source-url" in after
    with duckdb.connect(str(kept)) as target:
        assert target.execute("SELECT count(*) FROM public.customer").fetchone() == (int(rows["customer"]),)


def test_a_spoilt_row_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One row of the target is other than the source's: exit code 1, its table is named, no next steps."""
    read = demo._target_rows

    def spoil(path: Path, table: str) -> Mapping[object, int]:
        if table == "product":
            with duckdb.connect(str(path)) as target:
                target.execute(
                    "UPDATE public.product SET stock = stock + 1"
                    " WHERE sku = (SELECT min(sku) FROM public.product)"
                )
        return read(path, table)

    monkeypatch.setattr(demo, "_target_rows", spoil)
    assert main(["demo", "--seconds", "1"]) == 1
    said = capsys.readouterr().out
    assert re.findall(r"^  (\w+) .* rows  DIFFERENT$", said, re.M) == ["product"]
    assert "NOT EQUAL: " in said
    assert "What to try next" not in said
