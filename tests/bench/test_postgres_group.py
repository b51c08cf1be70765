"""The group postgres with few rows: every figure is measured, compared and judged by its bar."""

from __future__ import annotations

import pytest
from bench.groups import load
from bench.harness import Options, Usage
from bench.postgres.clusters import per_million

BARS = {
    "catch-up, inserts": ">= 1x",
    "catch-up, updates": ">= 1x",
    "catch-up, deletes": ">= 1x",
    "catch-up, mix": ">= 1x",
    "first copy, against pg_dump": ">= 1.2x",
    "first copy, against COPY": ">= 1x",
    "table -> Spark -> noop: spark.read": ">= 0.8x",
    "commit to visible, p50": "<= 2x",
    "commit to visible, p99": "<= 12x",
}
ONLY_SHOWN = {
    "catch-up, inserts: subscription",
    "catch-up, updates: subscription",
    "catch-up, deletes: subscription",
    "catch-up, mix: subscription",
    "first copy: pg_dump | pg_restore",
    "first copy: binary COPY pipe",
    "table -> /dev/null: psql COPY",
    "empty Spark job",
    "commit to visible, subscription, p50",
    "commit to visible, subscription, p99",
}


@pytest.mark.services
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("spark")  # the group takes the Spark that runs
@pytest.mark.parametrize("name", load("postgres").figure_names())
def test_every_figure_has_a_result_and_its_bar(name: str) -> None:
    """Rows arrive equal on every way (a wrong result would be a failure), with CPU and memory beside them."""
    figures = {each.name: each for each in load("postgres").measure(Options(rows=2000, figures=(name,)))}
    assert [each.note for each in figures.values() if each.value != each.value] == []
    known = {**BARS, **dict.fromkeys(ONLY_SHOWN, "-")}
    assert {each.name: each.bar_text for each in figures.values()} == {each: known[each] for each in figures}
    assert figures.keys() & BARS.keys()
    for each in figures.values():
        assert len(each.samples) == 3
        assert min(each.samples) > 0
        assert each.usage.peak_bytes
    print(f"{len(figures)} figures: {', '.join(figures)}")


def test_cpu_is_given_for_a_million_rows() -> None:
    """It grows with the rows; memory does not."""
    usage = per_million(Usage({"driver": 0.6}, {"driver": 5}), 300_000)
    assert (usage.cpu_seconds, usage.peak_bytes) == ({"driver": pytest.approx(2.0)}, {"driver": 5})
