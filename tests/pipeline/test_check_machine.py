"""Checks of this machine, each provoked."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pgsluice.pipeline import check_machine as module
from pgsluice.pipeline.check_machine import check_machine

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pgsluice.source.finding import Finding


def by_code(findings: list[Finding]) -> dict[str, Finding]:
    """Findings by their code."""
    return {finding.code: finding for finding in findings}


def test_this_machine_is_good_enough(tmp_path: Path) -> None:
    """Python, Java, PySpark and space are said, as info."""
    found = by_code(check_machine(tmp_path / "not" / "yet" / "made"))
    assert {code: finding.severity for code, finding in found.items()} == dict.fromkeys(
        ("python", "java", "pyspark", "space"), "info"
    )
    assert found["java"].fields["version"] >= 17
    assert found["space"].fields["path"] == str(tmp_path)


def test_java_too_old_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old java in JAVA_HOME is told from none at all, and the error comes first."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    first = check_machine(tmp_path)[0]
    assert (first.code, first.severity, first.fields["version"]) == ("java", "error", 8)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    first = check_machine(tmp_path)[0]
    assert (first.code, first.severity) == ("java", "error")
    assert "openjdk-17" in first.remedy


def test_space_and_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little space, and a state directory that is a file, are errors."""
    monkeypatch.setattr(module, "LEAST_SPACE", shutil.disk_usage(tmp_path).total * 2)
    assert by_code(check_machine(tmp_path))["space"].severity == "error"
    file = tmp_path / "file"
    file.touch()
    assert by_code(check_machine(file / "state"))["state-directory"].severity == "error"
