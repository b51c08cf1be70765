"""
What tests have proved in numbers: seeds, kills, rows compared. Shown at the end of a run, also of one with
workers, which have no terminal of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROPERTY: Final = "proof"

Proof = Callable[[str], None]
"""Takes a line."""


@pytest.fixture
def proof(request: pytest.FixtureRequest) -> Proof:
    """Notes a line for the end of the run; it travels with the test's report."""

    def note(line: str) -> None:
        print(line)  # where a failure is looked into
        request.node.user_properties.append((_PROPERTY, line))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the lines of all tests."""
    lines = sorted(_lines(terminalreporter))
    if lines:
        terminalreporter.section("what was proved")
        for name, line in lines:
            terminalreporter.line(f"{name}: {line}")


def _lines(terminalreporter: pytest.TerminalReporter) -> Iterator[tuple[str, str]]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                for name, value in report.user_properties:
                    if name == _PROPERTY:
                        yield report.nodeid.rpartition("/")[2], str(value)
