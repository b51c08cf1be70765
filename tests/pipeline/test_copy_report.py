"""How far a copy is, as `status` and the display tell it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from pgsluice import MemorySink
from pgsluice.cli.main import main
from pgsluice.pipeline import copy
from pgsluice.pipeline.copy_report import read_reports
from pgsluice.sinks.memory import MemoryStore
from pgsluice.units import readable_seconds, readable_size
from tests.pipeline.test_copy import cut_small, filled, pipeline

if TYPE_CHECKING:
    from pathlib import Path

    from pgsluice.sinks.base import Batch
    from tests.fix_pg import Database

__all__ = ["filled"]


class Held(MemorySink):
    """Waits in its n-th batch until it is let go."""

    def __init__(self, store: MemoryStore, at: int) -> None:
        super().__init__(store)
        self._left = at
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def apply(self, batch: Batch) -> None:
        """Apply, perhaps later."""
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            assert self.go_on.wait(60)
        super().apply(batch)


def test_while_tables_are_copied(
    filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows, bytes and ranges of each table, and what is left; nothing of it once all is copied."""
    cut_small(monkeypatch)
    monkeypatch.setattr(copy, "SMALL_BYTES", 1 << 30)
    sink = Held(MemoryStore(), at=4)
    running = pipeline(filled, sink, tmp_path)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            running.run(once=True)
        except BaseException as exc:  # noqa: BLE001 - looked at below
            errors.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    status = ["status", "--source-url", filled.url, "--state-dir", str(tmp_path / "state")]
    try:
        assert sink.reached.wait(60)
        (report,) = read_reports(tmp_path / "state")
        item = next(table for table in report.tables if table.table == "public.item")
        assert 0 < item.copied_ranges < item.ranges
        assert 0 < item.rows < 4000
        assert 0 < item.copied_bytes < item.bytes
        assert report.seconds_left is not None
        assert running.loops["target"].facts.state.startswith("copying tables, ")
        assert main(status) == 0
        said = capsys.readouterr().out
        assert f"copy      target, at {report.position}: about " in said
        assert f"{item.copied_ranges} of {item.ranges}" in said
    finally:
        sink.go_on.set()
        thread.join()
    assert errors == []
    (report,) = read_reports(tmp_path / "state")
    rows = {table.table: table.rows for table in report.tables}
    assert report.finished
    assert report.seconds_left == 0
    assert (rows["public.item"], rows["public.line"], rows["public.empty"]) == (4000, 50, 0)
    assert all(table.copied_ranges == table.ranges > 0 for table in report.tables)
    assert running.loops["target"].facts.state == "done"
    assert main(status) == 0
    assert "copy  " not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes(value: int, said: str) -> None:
    """In the largest unit that fits."""
    assert readable_size(value) == said


@pytest.mark.parametrize(("value", "said"), [(0.2, "0.2 s"), (100, "2 min"), (7500, "2 h 5 min")])
def test_times(value: float, said: str) -> None:
    """Seconds, then minutes, then hours."""
    assert readable_seconds(value) == said
