"""Long tests first, so that at the end no worker waits for the last one of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Begin with the tests that were given more time than others; among themselves all stay in random order.

    Each worker is first given one piece of the list, so every piece begins with a share of the long ones.
    """
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    usual = float(config.getini("timeout"))
    long = [item for item in items if _timeout(item, usual) > usual]
    others = [item for item in items if _timeout(item, usual) <= usual]
    items[:] = [item for worker in range(workers) for item in _piece(long, others, worker, workers)]


def _timeout(item: pytest.Item, usual: float) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else usual


def _piece(
    long: list[pytest.Item], others: list[pytest.Item], worker: int, workers: int
) -> list[pytest.Item]:
    first, last = (len(others) * number // workers for number in (worker, worker + 1))
    return [*long[worker::workers], *others[first:last]]
