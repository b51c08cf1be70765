"""The harness: medians, ratios, bars, exit codes, and the result that is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from bench.__main__ import main
from bench.capture.checksum import Checksum
from bench.capture.scene import portions
from bench.harness import (
    Bar,
    Figure,
    Options,
    Sample,
    Usage,
    WrongResultError,
    better,
    exit_code,
    failure,
    figure,
    median,
    percentile,
)
from bench.report import keep, line, this_machine
from bench.watch import Watch

if TYPE_CHECKING:
    from pathlib import Path


def samples(*values: float) -> list[Sample]:
    """Repetitions of which only the values matter."""
    return [Sample(value) for value in values]


def test_a_figure_is_the_ratio_of_two_medians() -> None:
    """Neither mean nor best counts, and each side has its own median."""
    found = figure("x", "rows/s", samples(90, 1000, 80), reference=samples(1, 100, 110))
    assert (found.value, found.ratio, found.samples) == (90, 0.9, (90, 1000, 80))


def test_fewer_than_three_repetitions_are_refused() -> None:
    """Two repetitions have no median worth the name."""
    with pytest.raises(ValueError, match="2 repetitions, 3 are needed"):
        median(samples(1, 2))


@pytest.mark.parametrize(
    ("bar", "value", "ratio", "verdict"),
    [
        (Bar(0.9), 1, 0.9, "ok"),
        (Bar(0.9), 1, 0.89, "short"),
        (Bar(3, "<="), 1, 3.0, "ok"),
        (Bar(3, "<="), 1, 3.01, "short"),
        (Bar(96, "<=", of="value"), 96, None, "ok"),
        (Bar(96, "<=", of="value"), 97, 0.1, "short"),
        (None, 1, 5.0, "-"),
    ],
)
def test_a_bar_is_reached_from_its_own_side(
    bar: Bar | None, value: float, ratio: float | None, verdict: str
) -> None:
    """A rate has to be at least, a latency or a size at most, and the bar itself is enough."""
    ok = None if bar is None else bar.reached(value, ratio)
    assert Figure("x", value, "s", ratio, bar, ok).verdict == verdict


def test_a_bar_for_a_ratio_needs_a_reference() -> None:
    """A figure that was compared with nothing can't be ok."""
    with pytest.raises(ValueError, match="needs a reference"):
        figure("x", "s", samples(1, 1, 1), bar=Bar(0.9))


def test_the_better_of_two_references_has_the_higher_median() -> None:
    """One lucky repetition does not make a reference the better one."""
    steady, lucky = samples(50, 51, 52), samples(1, 2, 1000)
    assert better(lucky, steady) is steady


def test_percentiles_lie_between_the_values() -> None:
    """p50 is the median, and p99 of 101 steps is the step before the last."""
    steps = [float(value) for value in range(101)]
    assert (percentile(steps, 50), percentile(steps, 99)) == (50.0, 99.0)


def test_cpu_is_the_median_and_memory_the_highest() -> None:
    """Memory that was needed once is needed."""
    used = [Usage({"listener": cpu}, {"listener": size}) for cpu, size in ((1.0, 10), (9.0, 30), (2.0, 20))]
    found = figure("x", "s", [Sample(1.0, usage) for usage in used])
    assert (found.usage.cpu, found.usage.peak) == (2.0, 30)


def test_the_exit_code_tells_of_one_that_falls_short() -> None:
    """Figures without a bar never fail; a short one and a wrong result do."""
    fine = figure("x", "s", samples(1, 1, 1), reference=samples(1, 1, 1), bar=Bar(0.9))
    shown = figure("y", "s", samples(1, 1, 1))
    short = figure("z", "s", samples(1, 1, 1), reference=samples(2, 2, 2), bar=Bar(0.9))
    assert exit_code([fine, shown]) == 0
    assert exit_code([fine, short, shown]) == 1
    assert exit_code([fine, failure("w", "3 rows of 4")]) == 1


def test_a_line_has_name_value_ratio_bar_and_verdict() -> None:
    """The line can be read, and cut by programs, in that order."""
    found = figure(
        "listener",
        "rows/s",
        samples(280e3, 280e3, 280e3),
        reference=samples(300e3, 300e3, 300e3),
        bar=Bar(0.9),
    )
    assert line(found).split()[:8] == ["listener", "280", "k", "rows/s", "0.93x", ">=", "0.9x", "ok"]
    assert line(failure("listener", "3 rows of 4")).split()[:2] == ["listener", "failed"]


def test_a_wrong_result_is_not_equal_to_the_source() -> None:
    """A lost row and a changed row are both found, and the message names both sides."""
    source = Checksum(2, 77)
    source.require(Checksum(2, 77), "the log")
    for wrong in (Checksum(1, 77), Checksum(2, 78)):
        with pytest.raises(WrongResultError, match="the log has"):
            source.require(wrong, "the log")


def test_portions_cover_every_row_once() -> None:
    """Ten transactions have all keys between them, in order."""
    ranges = portions(1234, 10)
    keys = [key for first, last in ranges for key in range(first, last + 1)]
    assert len(ranges) == 10
    assert keys == list(range(1, 1235))


def test_a_kept_result_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files have commit, machine, versions and every sample; a failure's value is null."""
    monkeypatch.setattr("bench.report.RESULTS", tmp_path / "results")
    figures: list[Figure] = [figure("x", "s", samples(1, 2, 3)), failure("y", "3 rows of 4")]
    path = keep("capture", figures, this_machine(postgresql="18.4"), Options(rows=5))
    kept = json.loads((tmp_path / "results" / "capture.json").read_text())
    assert {"commit", "date", "machine", "rows", "repetitions"} <= kept.keys()
    assert {"postgresql", "pyspark", "python"} <= kept["machine"]["versions"].keys()
    assert [(f["value"], f["samples"], f["verdict"]) for f in kept["figures"]] == [
        (2, [1, 2, 3], "-"),
        (None, [], "short"),
    ]
    assert "3 rows of 4" in path.read_text()


@pytest.mark.timeout(60)
def test_watching_counts_descendants_and_those_who_come_later() -> None:
    """CPU and memory of a process that is found only while watching are in the usage."""
    burn = "import time\nblock = bytearray(64 << 20)\nwhile time.process_time() < 0.5: pass\ninput()"
    started: list[subprocess.Popen[bytes]] = []
    with Watch(
        {"self": os.getpid(), "later": lambda: started[0].pid if started else None}, alone=("self",)
    ) as watch:
        started.append(subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE))
        while watch.usage().cpu_seconds["later"] < 0.3 or watch.usage().peak_bytes["later"] < 64 << 20:
            pass
        started[0].communicate(b"\n")
    assert watch.usage().peak_bytes["self"] > 0


@pytest.mark.parametrize(
    "arguments", [["--only", "nothing"], ["--repetitions", "2"], ["--rows", "10"], ["--rows", "many"]]
)
def test_bad_arguments_are_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """They end with exit code 2 and a line that says what is allowed."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "error" in capsys.readouterr().err


def test_an_unknown_figure_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The line lists the figures that there are."""
    assert main(["--only", "capture", "--figure", "speed"]) == 2
    assert "there are listener" in capsys.readouterr().err


def test_an_options_record_knows_whether_it_is_full() -> None:
    """Fewer rows or a single figure don't replace a kept result."""
    assert Options().full
    assert not Options(rows=1000).full
    assert not Options(figures=("listener",)).full
