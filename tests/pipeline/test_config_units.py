"""Sizes, durations and paths as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pgsluice.units import (
    Duration,
    LocalPath,
    Size,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

SIZE, DURATION, PATH = TypeAdapter(Size), TypeAdapter(Duration), TypeAdapter(LocalPath)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 * 1024**2),
        ("64 mib", 64 * 1024**2),
        ("10GB", 10 * 10**9),
        ("1.5KiB", 1536),
        ("512", 512),
        (512, 512),
        ("7B", 7),
        ("0", 0),
        ("2TiB", 2 * 1024**4),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    """Sizes have units of 1000 or of 1024, or none."""
    assert SIZE.validate_python(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "64M", "-1", -1, "1e3", "64MiB64", "x", None, [1]])
def test_sizes_that_are_none(text: object) -> None:
    """What is no size is refused, an ambiguous 64M as well."""
    with pytest.raises(ValidationError):
        SIZE.validate_python(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("200ms", 0.2),
        ("5m", 300),
        ("1h30m", 5400),
        ("2d", 172800),
        ("1.5s", 1.5),
        ("30", 30),
        (30, 30),
        (0.5, 0.5),
        ("0s", 0),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    """Durations have units, several of them, or are seconds."""
    assert DURATION.validate_python(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "10x", "-1s", -1, "1 hour", "10s x", float("nan"), float("inf"), None]
)
def test_durations_that_are_none(text: object) -> None:
    """What is no duration is refused."""
    with pytest.raises(ValidationError):
        DURATION.validate_python(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_sizes_read_back(size: int) -> None:
    """What is written for a size is that size, to the byte."""
    assert parse_size(format_size(size)) == size


@given(st.integers(min_value=0, max_value=10**12))
def test_durations_read_back(milliseconds: int) -> None:
    """What is written for a duration is that duration, to the millisecond."""
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000, abs=1e-6
    )


@given(st.text(max_size=12))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    """Reading text ends in a number or a ValueError."""
    for parse in (parse_size, parse_duration):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert "write a" in str(error)  # noqa: PT017 - both outcomes are right


def test_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home directory is filled in, and a relative path starts at the working directory."""
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.chdir(tmp_path)
    assert PATH.validate_python("~/a") == Path("/somewhere/a")
    assert PATH.validate_python("a/b") == tmp_path / "a" / "b"
